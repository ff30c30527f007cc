"""The terminal frames that a turn may get without an answer, and their place where nobody holds the turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import UNSET

from shared.contracts.identifiers import TurnId
from shared.contracts.ledger import TurnState
from shared.contracts.server_frames import (
    CancelledBy,
    ResponseCancelled,
    ResponseExpired,
    ResponseFailed,
    TerminalFrame,
)
from shared.policy.failed_ends import FailedEnd
from shared.turn.stored_replay import text_digest

TerminalMaker = Callable[[int, int], TerminalFrame]
"""Makes the terminal frame from (attempt, seq)."""


class EndPlace(NamedTuple):
    """Attempt and seq of a terminal frame: the arguments of a TerminalMaker."""

    attempt: int
    seq: int


BEFORE_ANY_CLAIM = EndPlace(0, 0)


def place_of_end(state: TurnState) -> EndPlace:
    """Where an end without a live owner stands: behind what the last attempt logged, 0/0 before any claim."""
    return EndPlace(state.attempt, state.last_seq + 1) if state.attempt else BEFORE_ANY_CLAIM


def failed_frame(turn_id: TurnId, end: FailedEnd, *, is_partial: bool) -> TerminalMaker:
    """`chat.response.failed`; `is_partial` = some text was shown."""

    def make(attempt: int, seq: int) -> TerminalFrame:
        return ResponseFailed(
            turn_id=turn_id,
            attempt=attempt,
            seq=seq,
            code=end.code,
            message=end.message,
            retryable=end.retryable,
            partial=is_partial,
            retry_after_ms=UNSET if end.retry_after_ms is None else end.retry_after_ms,
            retract=True if end.retract and is_partial else UNSET,
            stop_reason=UNSET if end.stop_reason is None else end.stop_reason,
        )

    return make


def failed_unclaimed_frame(turn_id: TurnId, end: FailedEnd) -> TerminalMaker:
    """`chat.response.failed` of a turn that nobody holds: its place tells whether an attempt showed text."""

    def make(attempt: int, seq: int) -> TerminalFrame:
        # seq 0 is `started`, text comes from seq 1.
        return failed_frame(turn_id, end, is_partial=seq > 1)(attempt, seq)

    return make


def cancelled_frame(turn_id: TurnId, text: str, by: CancelledBy) -> TerminalMaker:
    """`chat.response.cancelled` after `text` was shown; empty where nobody holds the turn."""
    digest = text_digest(text)

    def make(attempt: int, seq: int) -> TerminalFrame:
        return ResponseCancelled(
            turn_id=turn_id, attempt=attempt, seq=seq, by=by, length=len(text), sha256=digest
        )

    return make


def expired_frame(turn_id: TurnId, age_ms: int) -> TerminalMaker:
    """`chat.response.expired` at the age of `age_ms`."""

    def make(attempt: int, seq: int) -> TerminalFrame:
        return ResponseExpired(turn_id=turn_id, attempt=attempt, seq=seq, age_ms=age_ms)

    return make
