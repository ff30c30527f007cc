"""FramePush over the Management API: our gateways' private port, or API Gateway itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import lru_cache
from weakref import WeakValueDictionary

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpAnswer, HttpSession
from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId
from shared.contracts.pushes import (
    BATCH_CONTENT_TYPE,
    BATCH_LIMIT_BYTES,
    PUSH_LIMIT_BYTES,
    PushFrame,
    PushStatus,
    decode_statuses,
    encode_line,
)
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.push_endpoint import PushEndpoint, parse_push_endpoint
from shared.policy.sigv4 import Credential, sign

_BATCH = {"content-type": BATCH_CONTENT_TYPE}
_JSON = {"content-type": "application/json"}


class ManagementApiPush:
    """Several frames for one of our gateways travel in one signed request, everything else one by one.

    At most `requests_per_endpoint` requests are in flight towards one endpoint; waiting counts into the time-out.
    """

    def __init__(
        self,
        http: HttpSession,
        credential: Credential,
        clock: Clock,
        *,
        aws: AwsCredentials | None = None,
        timeout_ms: int,
        requests_per_endpoint: int,
    ) -> None:
        self._http = http
        self._credential = credential  # accepted by our own gateways
        self._clock = clock
        self._aws = aws  # signs towards API Gateway
        self._timeout_s = timeout_ms / 1000
        self._requests_per_endpoint = requests_per_endpoint
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def push(self, endpoint: str, frames: Sequence[PushFrame]) -> Sequence[PushStatus]:
        """Post frames to one endpoint, in order, one status each.

        Raises DependencyUnavailable when a request failed (some frames may have arrived) and ConfigurationError when
        the endpoint is malformed or refuses our credential.
        """
        target = _endpoint(endpoint)
        if target.is_api_gateway or len(frames) < 2:
            return await self._push_each(target, frames)
        statuses: list[PushStatus] = []
        for body, count in _batches(frames):
            statuses.extend(await self._push_batch(target, body, count))
        return statuses

    async def _push_batch(
        self, target: PushEndpoint, body: bytes, count: int
    ) -> Sequence[PushStatus]:
        answer = await self._post(target, target.batch_path, _BATCH, body)
        if answer.status != 200:
            raise _refusal(target, answer.status)
        statuses = decode_statuses(answer.body)
        if statuses is None:
            raise DependencyUnavailable(f"{target.origin}: not a list of statuses")
        if len(statuses) != count:
            raise DependencyUnavailable(f"{target.origin}: {len(statuses)} statuses for {count}")
        return statuses

    async def _push_each(
        self, target: PushEndpoint, frames: Sequence[PushFrame]
    ) -> Sequence[PushStatus]:
        places: dict[ConnectionId, list[int]] = {}
        for place, frame in enumerate(frames):
            places.setdefault(frame.connection_id, []).append(place)
        statuses: list[PushStatus] = [PushStatus.SENT] * len(frames)

        async def push_connection(own: list[int]) -> None:
            for place in own:
                status = await self._push_one(target, frames[place])
                statuses[place] = status
                if status in {PushStatus.GONE, PushStatus.THROTTLED}:
                    # What follows would arrive out of order, or not at all.
                    for later in own[own.index(place) :]:
                        statuses[later] = status
                    return

        outcomes = await asyncio.gather(
            *(push_connection(own) for own in places.values()), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return statuses

    async def _push_one(self, target: PushEndpoint, frame: PushFrame) -> PushStatus:
        if len(frame.data) > PUSH_LIMIT_BYTES:
            return PushStatus.TOO_LARGE
        path = target.connection_path(frame.connection_id)
        answer = await self._post(target, path, _JSON, frame.data)
        if answer.status == 400 and target.is_api_gateway:
            # API Gateway's BadRequestException: an id that it never gave out, so nobody is there.
            return PushStatus.GONE
        try:
            return PushStatus(answer.status)
        except ValueError:
            raise _refusal(target, answer.status) from None

    async def _post(
        self, target: PushEndpoint, path: str, headers: dict[str, str], body: bytes
    ) -> HttpAnswer:
        slots = self._slots.setdefault(
            target.origin, asyncio.Semaphore(self._requests_per_endpoint)
        )
        try:
            async with asyncio.timeout(self._timeout_s), slots:
                credential = await self._credential_for(target)
                signature = sign(
                    credential, "POST", target.host, path, "", headers, body, self._clock.now_ms()
                )
                return await self._http.send(
                    "POST",
                    target.origin,
                    path,
                    headers={**headers, **signature},
                    body=body,
                    timeout_s=self._timeout_s,
                )
        except TimeoutError as error:
            raise DependencyUnavailable(f"{target.origin}: no answer to a push in time") from error

    async def _credential_for(self, target: PushEndpoint) -> Credential:
        if not target.is_api_gateway:
            return self._credential
        if self._aws is None:
            raise ConfigurationError(f"No AWS credentials to sign pushes to {target.origin}.")
        own = await self._aws.current()
        region = target.region or own.region
        return Credential(own.access_key_id, own.secret_access_key, region, own.session_token)


@lru_cache(maxsize=1024)
def _endpoint(text: str) -> PushEndpoint:
    return parse_push_endpoint(text)


def _batches(frames: Sequence[PushFrame]) -> Iterator[tuple[bytes, int]]:
    """Bodies within the batch limit, each with its number of lines."""
    lines: list[bytes] = []
    size = 0
    for frame in frames:
        line = encode_line(frame)
        if lines and size + len(line) + 1 > BATCH_LIMIT_BYTES:
            yield b"\n".join(lines), len(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    yield b"\n".join(lines), len(lines)


def _refusal(target: PushEndpoint, status: int) -> ConfigurationError | DependencyUnavailable:
    if status == 403:
        return ConfigurationError(
            f"{target.origin} refuses our signature: check BURSTCHAT_PUSH_ACCESS_KEY_ID, "
            "BURSTCHAT_PUSH_SECRET_ACCESS_KEY and BURSTCHAT_PUSH_REGION, or the role's execute-api permission."
        )
    return DependencyUnavailable(f"{target.origin} answered {status} to a push")
