"""The fold of PROTOCOL §4 for one turn: frames and time in, a new turn and what to send out.

Pure: no clock, no I/O, inputs are never mutated. `clients/web/reducer.js` is its twin, and both pass
`tests/contract/client_cases.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from msgspec import UNSET

from shared.contracts.client_frames import AnyClientFrame, ChatResume
from shared.contracts.identifiers import MessageId, TurnId
from shared.contracts.server_frames import (
    LoggedFrame,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
    SourceLink,
    Timings,
    Usage,
)

HELD_LIMIT = 100
RESUME_REPEAT_MS = 2000

Status = Literal[
    "sent",
    "waiting",
    "accepted",
    "queued",
    "streaming",
    "completed",
    "failed",
    "cancelled",
    "expired",
    "rejected",
]
ENDED: frozenset[Status] = frozenset(("completed", "failed", "cancelled", "expired", "rejected"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A user message and what is known of its answer; ids arrive when they are known."""

    message_id: MessageId | None = None
    turn_id: TurnId | None = None
    user_text: str = ""
    is_masked: bool = False
    """The server hid personal data in `user_text` before it kept the message."""
    status: Status = "sent"
    attempt: int = 0
    last_seq: int = -1
    text: str = ""
    held: Mapping[int, LoggedFrame] = field(default_factory=dict)
    """Frames of the current attempt that came too early, by seq; at most HELD_LIMIT."""
    resume_sent_at_ms: int | None = None
    """Set while a `chat.resume` is outstanding."""
    cancel_requested: bool = False
    verified: bool | None = None
    """None until the end; False while the text differs from the length or hash of its end."""
    path: str | None = None
    position: int | None = None
    wait_ms: int | None = None
    intent: str | None = None
    model: str | None = None
    code: str | None = None
    message: str | None = None
    retryable: bool = False
    retry_after_ms: int | None = None
    partial: bool = False
    stop_reason: str | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    sources: tuple[SourceLink, ...] = ()

    @property
    def is_ended(self) -> bool:
        """True once no frame can change the turn any more."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class Folded:
    """A turn after one frame, the frames to send, and whether its text must be fetched over HTTP."""

    turn: Turn
    out: tuple[AnyClientFrame, ...] = ()
    fetch: bool = False


def fold_frame(turn: Turn, frame: LoggedFrame, now_ms: int) -> Folded:
    """Apply one logged frame; repeats, older attempts and frames after the end change nothing."""
    if turn.is_ended:
        return Folded(turn)
    if frame.attempt == 0 and not isinstance(frame, ResponseStarted | ResponseDelta):
        return _settle(_apply(turn, frame))
    if frame.attempt < turn.attempt:
        return Folded(turn)
    if frame.attempt > turn.attempt:
        turn = _restart(turn, frame.attempt)
    if frame.seq <= turn.last_seq:
        return Folded(turn)
    if frame.seq > turn.last_seq + 1:
        return ask_again(_hold(turn, frame), now_ms)
    return _settle(_apply_in_order(turn, frame))


def ask_again(turn: Turn, now_ms: int) -> Folded:
    """`chat.resume` from where the turn stands, unless one went out less than 2 s ago."""
    sent_at_ms = turn.resume_sent_at_ms
    if turn.turn_id is None or (sent_at_ms is not None and now_ms - sent_at_ms < RESUME_REPEAT_MS):
        return Folded(turn)
    resume = ChatResume(turn_id=turn.turn_id, after_seq=turn.last_seq, attempt=turn.attempt)
    return Folded(replace(turn, resume_sent_at_ms=now_ms), (resume,))


def _restart(turn: Turn, attempt: int) -> Turn:
    return replace(turn, attempt=attempt, last_seq=-1, text="", held={}, status="streaming")


def _hold(turn: Turn, frame: LoggedFrame) -> Turn:
    # Beyond the limit frames are dropped: the replay that was asked for brings them anyway.
    if frame.seq in turn.held or len(turn.held) >= HELD_LIMIT:
        return turn
    return replace(turn, held={**turn.held, frame.seq: frame})


def _apply_in_order(turn: Turn, frame: LoggedFrame) -> Turn:
    held = dict(turn.held)
    following: LoggedFrame | None = frame
    while following is not None and not turn.is_ended:
        turn = replace(_apply(turn, following), last_seq=following.seq)
        following = held.pop(turn.last_seq + 1, None)
    return replace(turn, held=held, resume_sent_at_ms=turn.resume_sent_at_ms if held else None)


def _settle(turn: Turn) -> Folded:
    if not turn.is_ended:
        return Folded(turn)
    done = replace(turn, held={}, resume_sent_at_ms=None, position=None, wait_ms=None)
    return Folded(done, fetch=done.verified is False)


def _is_whole(text: str, length: int, sha256: str) -> bool:
    return len(text) == length and hashlib.sha256(text.encode()).hexdigest() == sha256


def _apply(turn: Turn, frame: LoggedFrame) -> Turn:
    match frame:
        case ResponseStarted():
            return replace(
                turn,
                status="streaming",
                position=None,
                wait_ms=None,
                path=frame.path,
                intent=frame.intent,
                model=frame.model,
            )
        case ResponseDelta():
            return replace(turn, status="streaming", text=turn.text + frame.delta)
        case ResponseCompleted():
            return replace(
                turn,
                status="completed",
                stop_reason=frame.stop_reason,
                usage=frame.usage,
                timings=frame.timings,
                sources=frame.sources,
                verified=_is_whole(turn.text, frame.length, frame.sha256),
            )
        case ResponseFailed():
            return _fail(turn, frame)
        case ResponseCancelled():
            return replace(
                turn,
                status="cancelled",
                stop_reason="cancelled",
                verified=_is_whole(turn.text, frame.length, frame.sha256),
            )
        case ResponseExpired():
            return replace(turn, status="expired", retryable=True)
        case _:
            assert_never(frame)


def _fail(turn: Turn, frame: ResponseFailed) -> Turn:
    retract = frame.retract is True
    return replace(
        turn,
        status="failed",
        text="" if retract else turn.text,
        code=frame.code,
        message=frame.message,
        retryable=frame.retryable,
        retry_after_ms=None if frame.retry_after_ms is UNSET else frame.retry_after_ms,
        partial=frame.partial and not retract,
        stop_reason=None if frame.stop_reason is UNSET else frame.stop_reason,
    )
