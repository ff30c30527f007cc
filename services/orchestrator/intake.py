"""The orchestrators' door over HTTP: `POST /turns`, and health.

Plain ASGI, since every turn passes here. Answers: 200 with an IntakeDecision (a shed turn has `path` null) · 400 not
a turn · 403 not signed by us · 413 too large · 503 draining, or burst did not take the overflow in time: the gateway
then asks another task or enqueues the turn itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

from services.orchestrator.health import (
    DRAINING,
    Receive,
    Scope,
    Send,
    answer_json,
    board_faults,
    readiness,
)
from services.orchestrator.placement import Placement
from shared.clock import Clock
from shared.contracts.turns import MESSAGE_LIMIT_BYTES, decode_turn
from shared.errors import ChatError, MalformedMessage, UnsupportedTurn
from shared.policy.sigv4 import Credential, verify
from shared.telemetry import Log
from shared.turn.load_watch import LoadWatch

BODY_TIMEOUT_S = 0.4

_log = Log("intake")


class IntakeApp:
    """The ASGI application of the intake port."""

    def __init__(
        self,
        *,
        placement: Placement,
        watch: LoadWatch,
        credential: Credential,
        clock: Clock,
    ) -> None:
        self._placement = placement
        self._watch = watch
        self._credential = credential
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request; anything but HTTP is refused by the server."""
        if scope["type"] != "http":
            return
        match (scope["method"], scope["path"]):
            case ("POST", "/turns"):
                status, answer = await self._take(scope, receive)
            case ("GET", "/healthz"):
                status, answer = 200, {"status": "ok"}
            case ("GET", "/readyz"):
                status, answer = readiness(self._reasons())
            case (_, "/turns" | "/healthz" | "/readyz"):
                status, answer = 405, {"message": "method not allowed"}
            case _:
                status, answer = 404, {"message": "not found"}
        await answer_json(send, status, answer)

    async def _take(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _read_body(receive)
        except TimeoutError:
            return 408, {"message": "the body did not arrive in time"}
        if body is None:
            return 413, {"message": f"more than {MESSAGE_LIMIT_BYTES} bytes"}
        if (fault := self._verify(scope, body)) is not None:
            _log.warning("intake.forbidden", fault=fault)
            return 403, {"message": fault}
        if self._placement.closed:
            return 503, {"message": DRAINING}
        try:
            return 200, await self._placement.submit(decode_turn(body))
        except (MalformedMessage, UnsupportedTurn) as error:
            _log.warning("intake.malformed", error_type=type(error).__name__)
            return 400, {"message": "not a turn of schema 1"}
        except ChatError as error:
            _log.warning("intake.unavailable", error_type=type(error).__name__)
            return 503, {"message": "burst did not take the turn"}

    def _verify(self, scope: Scope, body: bytes) -> str | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        return verify(
            self._credential,
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers,
            body,
            self._clock.now_ms(),
        )

    def _reasons(self) -> dict[str, str]:
        draining = {"intake": DRAINING} if self._placement.closed else {}
        return draining | board_faults(self._watch, self._clock)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body, None when it is above the limit of a queue message."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MESSAGE_LIMIT_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)
