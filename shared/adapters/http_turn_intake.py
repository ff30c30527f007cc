"""TurnIntake over `POST /turns` of the orchestrators."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from shared.adapters.http_session import ConnectFailed, HttpSession
from shared.clock import Clock
from shared.contracts.turns import IntakeDecision, TurnRequest, encode_turn
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential, sign

_HEADERS = {"content-type": "application/json"}
_decode_decision = msgspec.json.Decoder(IntakeDecision).decode


class HttpTurnIntake:
    """Takes the orchestrators in turn; one that refuses the connection is passed over once per submit."""

    def __init__(
        self,
        http: HttpSession,
        urls: Sequence[str],
        credential: Credential,
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self._http = http
        self._doors = [_door(url) for url in urls]
        self._credential = credential
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._next = 0
        if not self._doors:
            raise ConfigurationError("BURSTCHAT_INTAKE_URLS names no orchestrator.")

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        """Hand over a head turn; a refusal for load is a decision with `path` None.

        Raises DependencyUnavailable when nobody took it within the time-out, both tries together.
        """
        body = encode_turn(request)
        started_s = self._clock.monotonic_s()
        try:
            return await self._post(self._take_door(), body, self._timeout_s)
        except ConnectFailed:
            left_s = self._timeout_s - (self._clock.monotonic_s() - started_s)
            if len(self._doors) < 2 or left_s <= 0:
                raise
            return await self._post(self._take_door(), body, left_s)

    def _take_door(self) -> tuple[str, str, str]:
        door = self._doors[self._next % len(self._doors)]
        self._next += 1
        return door

    async def _post(
        self, door: tuple[str, str, str], body: bytes, timeout_s: float
    ) -> IntakeDecision:
        origin, host, path = door
        signature = sign(
            self._credential, "POST", host, path, "", _HEADERS, body, self._clock.now_ms()
        )
        answer = await self._http.send(
            "POST",
            origin,
            path,
            headers={**_HEADERS, **signature},
            body=body,
            timeout_s=timeout_s,
        )
        if answer.status != 200:
            raise DependencyUnavailable(f"{origin} answered {answer.status} to POST /turns")
        try:
            return _decode_decision(answer.body)
        except msgspec.MsgspecError as error:
            raise DependencyUnavailable(f"{origin}: not an intake decision") from error


def _door(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.username:
        raise ConfigurationError(f"BURSTCHAT_INTAKE_URLS: {url!r} is not an http address.")
    default = ":80" if parts.scheme == "http" else ":443"
    host = parts.netloc.lower().removesuffix(default)
    return f"{parts.scheme}://{host}", host, f"{parts.path.rstrip('/')}/turns"
