"""The orchestrators' door over HTTP: `POST /turns`, and health.

Plain ASGI, since every turn passes here. Answers: 200 with an IntakeDecision (a shed turn has `path` null) · 400 not
a turn · 403 not signed by us · 413 too large · 503 draining, or burst did not take the overflow in time: the gateway
then asks another task or enqueues the turn itself.
"""

from __future__ import annotations

from services.asgi import (
    ALIVE,
    CLOSE_HEADER,
    BodyTooLarge,
    BodyTooSlow,
    Disconnected,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    readiness,
    respond_json,
)
from services.orchestrator.health import board_faults
from services.orchestrator.placement import Placement
from shared.clock import Clock
from shared.contracts.turns import MESSAGE_LIMIT_BYTES, decode_turn
from shared.errors import ChatError, MalformedMessage, UnsupportedTurn
from shared.policy.admission import DRAINING
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
                await self._receive(scope, receive, send)
            case ("GET", "/healthz"):
                await respond_json(send, 200, ALIVE)
            case ("GET", "/readyz"):
                await respond_json(send, *readiness(self._failing()))
            case (_, "/turns" | "/healthz" | "/readyz"):
                await respond_json(send, 405, {"message": "method not allowed"})
            case _:
                await respond_json(send, 404, {"message": "not found"})

    async def _receive(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, MESSAGE_LIMIT_BYTES, within_s=BODY_TIMEOUT_S)
        except BodyTooSlow:
            fault = {"message": "the body did not arrive in time"}
            await respond_json(send, 408, fault, [CLOSE_HEADER])
        except BodyTooLarge:
            fault = {"message": f"more than {MESSAGE_LIMIT_BYTES} bytes"}
            await respond_json(send, 413, fault, [CLOSE_HEADER])
        except Disconnected:
            return
        else:
            await respond_json(send, *await self._take(scope, body))

    async def _take(self, scope: Scope, body: bytes) -> tuple[int, object]:
        if (fault := self._verify(scope, body)) is not None:
            _log.warning("intake.forbidden", fault=fault)
            return 403, {"message": fault}
        if self._placement.is_closed:
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
        return verify(
            self._credential,
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers_of(scope),
            body,
            self._clock.now_ms(),
        )

    def _failing(self) -> dict[str, str]:
        draining = {"intake": DRAINING} if self._placement.is_closed else {}
        return draining | board_faults(self._watch, self._clock)
