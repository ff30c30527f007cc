"""Frames from the server (PROTOCOL §3). Those with `seq` are logged and replayed; the others are not."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from shared.contracts.identifiers import ConnectionId, MessageId, SessionId, TurnId

PROTOCOL_VERSION = 1
DELTA_FRAME_LIMIT_BYTES = 32_768

AcceptedPath = Literal["inline", "burst", "queue", "waiting"]
StartedPath = Literal["inline", "burst", "queue", "stored"]
CancelledBy = Literal["user", "disconnect"]
RejectedCode = Literal[
    "busy",
    "overloaded",
    "rate_limited",
    "message_too_large",
    "message_empty",
    "invalid_text",
    "session_limited",
    "unavailable",
]
FailedCode = Literal[
    "model_overloaded",
    "model_rate_limited",
    "model_timeout",
    "model_disconnected",
    "model_rejected",
    "blocked",
    "deadline_exceeded",
    "attempts_exhausted",
    "internal",
]
ErrorCode = Literal[
    "invalid_json",
    "invalid_frame",
    "unknown_type",
    "binary_not_supported",
    "unknown_turn",
    "unavailable",
    "too_many_errors",
]


class ServerFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every frame that the server sends.

    Codes, paths and reasons are plain strings in the frames, so that a client understands a frame whose code is newer
    than itself; what we send comes from the Literal types above.
    """


class RunningTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of the session that has not ended; `last_seq` -1 = no frame yet."""

    turn_id: TurnId
    message_id: MessageId
    attempt: int
    last_seq: int


class SessionReady(ServerFrame, frozen=True, kw_only=True, tag="session.ready"):
    """The first frame on a connection."""

    connection_id: ConnectionId
    session_id: SessionId
    heartbeat_ms: int
    idle_timeout_ms: int
    running: tuple[RunningTurn, ...]
    protocol: int = PROTOCOL_VERSION


class ChatAccepted(ServerFrame, frozen=True, kw_only=True, tag="chat.accepted"):
    """The message became (or already was) a turn. One per `chat.send`."""

    message_id: MessageId
    turn_id: TurnId
    path: str  # AcceptedPath
    duplicate: bool
    position: int | UnsetType = UNSET
    text: str | UnsetType = UNSET
    """The message as it is kept, present when personal data in it was masked."""


class ChatQueued(ServerFrame, frozen=True, kw_only=True, tag="chat.queued"):
    """The turn waits in the burst queue; `wait_ms` is an estimate."""

    turn_id: TurnId
    wait_ms: int


class ResponseStarted(ServerFrame, frozen=True, kw_only=True, tag="chat.response.started"):
    """The first logged frame of every attempt."""

    turn_id: TurnId
    attempt: int
    seq: int
    path: str  # StartedPath
    intent: str
    model: str


class ResponseDelta(ServerFrame, frozen=True, kw_only=True, tag="chat.response.delta"):
    """A piece of reply text; `seq` >= 1 without gaps inside one attempt."""

    turn_id: TurnId
    attempt: int
    seq: int
    delta: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations from acceptance, in milliseconds."""

    queued_ms: int
    first_token_ms: int
    total_ms: int


class SourceLink(msgspec.Struct, frozen=True, kw_only=True):
    """A document that the reply drew on."""

    title: str
    id: str


class ResponseCompleted(ServerFrame, frozen=True, kw_only=True, tag="chat.response.completed"):
    """Terminal: the whole answer was sent. `length` in code points, `sha256` hex of the UTF-8 text."""

    turn_id: TurnId
    attempt: int
    seq: int
    stop_reason: str
    length: int
    sha256: str
    usage: Usage
    timings: Timings
    sources: tuple[SourceLink, ...] = ()


class ResponseFailed(ServerFrame, frozen=True, kw_only=True, tag="chat.response.failed"):
    """Terminal: no answer. `partial`: text shown so far is incomplete and not stored."""

    turn_id: TurnId
    attempt: int
    seq: int
    code: str  # FailedCode
    message: str
    retryable: bool
    partial: bool
    retry_after_ms: int | UnsetType = UNSET
    retract: bool | UnsetType = UNSET
    stop_reason: str | UnsetType = UNSET


class ResponseCancelled(ServerFrame, frozen=True, kw_only=True, tag="chat.response.cancelled"):
    """Terminal: stopped; `length` and `sha256` of the text shown, which is stored with the question."""

    turn_id: TurnId
    attempt: int
    seq: int
    by: str  # CancelledBy
    length: int
    sha256: str


class ResponseExpired(ServerFrame, frozen=True, kw_only=True, tag="chat.response.expired"):
    """Terminal: too old before any work was done."""

    turn_id: TurnId
    attempt: int
    seq: int
    age_ms: int
    retryable: bool = True


class ChatRejected(ServerFrame, frozen=True, kw_only=True, tag="chat.rejected"):
    """The message was not accepted."""

    message_id: MessageId
    code: str  # RejectedCode
    message: str
    retry_after_ms: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    """Which rule refused it, for people who read logs; the code is what clients act on."""


class HistoryTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An earlier turn, question and answer together, with what was told of it when it was live."""

    turn_id: TurnId
    message_id: MessageId
    user_text: str
    assistant_text: str
    stop_reason: str
    completed_at_ms: int
    path: str = ""  # AcceptedPath
    intent: str = ""
    model: str = ""
    usage: Usage | UnsetType = UNSET
    timings: Timings | UnsetType = UNSET
    sources: tuple[SourceLink, ...] = ()


class ChatHistory(ServerFrame, frozen=True, kw_only=True, tag="chat.history"):
    """A page of earlier turns, newest first."""

    turns: tuple[HistoryTurn, ...]
    more: bool


class ChatResumed(ServerFrame, frozen=True, kw_only=True, tag="chat.resumed"):
    """Precedes a replay; `from_seq` is the first seq that follows."""

    turn_id: TurnId
    attempt: int
    from_seq: int
    complete: bool


class SessionGoaway(ServerFrame, frozen=True, kw_only=True, tag="session.goaway"):
    """Please reconnect elsewhere."""

    reason: str  # "drain", "max_age" or "slow"
    reconnect_after_ms: int


class Pong(ServerFrame, frozen=True, kw_only=True, tag="pong"):
    """Answer to a ping."""

    nonce: str | int | None
    at_ms: int


class ProtocolError(ServerFrame, frozen=True, kw_only=True, tag="error"):
    """A frame was not understood, or (`unavailable`) nobody could be asked: repeat it. The connection stays open."""

    code: str  # ErrorCode
    message: str
    message_id: MessageId | UnsetType = UNSET
    turn_id: TurnId | UnsetType = UNSET


TerminalFrame = ResponseCompleted | ResponseFailed | ResponseCancelled | ResponseExpired
LoggedFrame = ResponseStarted | ResponseDelta | TerminalFrame
AnyServerFrame = (
    SessionReady
    | ChatAccepted
    | ChatQueued
    | ResponseStarted
    | ResponseDelta
    | ResponseCompleted
    | ResponseFailed
    | ResponseCancelled
    | ResponseExpired
    | ChatRejected
    | ChatHistory
    | ChatResumed
    | SessionGoaway
    | Pong
    | ProtocolError
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyServerFrame)


def encode_frame(frame: ServerFrame) -> bytes:
    """JSON, UTF-8, non-ASCII unescaped."""
    return _encoder.encode(frame)


def decode_server_frame(data: bytes | str) -> AnyServerFrame:
    """Parse a frame of the server, ignoring unknown fields.

    Raises msgspec.ValidationError for an unknown type (clients ignore those), msgspec.DecodeError for bad JSON.
    """
    return _decoder.decode(data)
