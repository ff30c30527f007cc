"""The turn as it travels: the queue message of PROTOCOL §9 (schema 1), also the body of `POST /turns`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
    session_of_turn,
)
from shared.errors import MalformedMessage, UnsupportedTurn

SCHEMA = 1
MESSAGE_LIMIT_BYTES = 65_536

Priority = Literal["high", "normal", "low"]
Path = Literal["inline", "burst", "queue"]
"""Where a turn was put: a slot of the orchestrator, the burst queue, or a queue of the queue_runner."""
QueueName = Literal["burst", "retry", "deferred", "background"]
TurnStatus = Literal[
    "waiting", "running", "completed", "failed", "cancelled", "expired", "rejected"
]
"""`waiting` = accepted and never claimed, queued included. `rejected` = taken back before any work."""
EndStatus = Literal["completed", "failed", "cancelled", "expired", "rejected"]


EpochMs = Annotated[int, msgspec.Meta(ge=0, le=10**14 - 1)]
"""14 digits: Lua, which the ledger's scripts are written in, writes longer numbers with an exponent."""
Attempt = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted user message on its way to a worker. References instead of history; times in epoch ms.

    `ready_at_ms` is when the turn became head of its session (0 while it waits); the stale rule counts from it.
    `limit_at_ms` is when an unanswered turn is given up, 0 = the worker's own rule.
    `attempt_hint` is the last attempt that the sender knows of; a claim is always above it.
    """

    schema: int = SCHEMA
    turn_id: TurnId
    session_id: SessionId
    message_id: MessageId
    tenant: TenantId
    user: UserId
    text: str
    metadata: dict[str, Any] = {}
    priority: Priority = "high"
    connection_id: ConnectionId | None = None
    accepted_at_ms: EpochMs
    ready_at_ms: EpochMs = 0
    enqueued_at_ms: EpochMs = 0
    limit_at_ms: EpochMs = 0
    attempt_hint: Attempt = 0
    detached: bool = False
    trace: str = ""
    reason: str = ""

    @property
    def session(self) -> SessionRef:
        """The session under its owner's identity."""
        return SessionRef(self.tenant, self.user, self.session_id)

    @property
    def ref(self) -> TurnRef:
        """The turn under its owner's identity."""
        return TurnRef(self.session, self.turn_id)


class IntakeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The orchestrator's answer to `POST /turns`: where the turn went, and why.

    `path` None means refused (shed): nothing was kept, `retry_after_ms` says when to come back.
    """

    path: Path | None
    reason: str
    retry_after_ms: int | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TurnRequest)


def encode_turn(request: TurnRequest) -> bytes:
    """JSON of PROTOCOL §9."""
    return _encoder.encode(request)


def decode_turn(raw: bytes | str) -> TurnRequest:
    """Parse a queue message; unknown fields are ignored.

    Raises MalformedMessage (with the raw bytes) when undecodable, or when the turn is none of its session,
    UnsupportedTurn for an unknown schema.
    """
    try:
        request = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedMessage(f"not a queue message: {error}", _bytes(raw)) from error
    if request.schema != SCHEMA:
        raise UnsupportedTurn(f"queue message schema {request.schema}, this version knows {SCHEMA}")
    if session_of_turn(request.turn_id) != request.session_id:
        raise MalformedMessage("a queue message whose turn is none of its session", _bytes(raw))
    return request


def _bytes(raw: bytes | str) -> bytes:
    return raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
