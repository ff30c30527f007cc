"""A stored turn as the frames that a reader would have seen, always cut the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from shared.contracts.server_frames import (
    LoggedFrame,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseStarted,
    TerminalFrame,
)
from shared.contracts.stored_turns import StoredTurn
from shared.policy.frame_cutting import cut_text


def stored_frames(stored: StoredTurn, *, attempt: int) -> tuple[LoggedFrame, ...]:
    """`started` (path `stored`), deltas of at most 32 KiB and the terminal frame, numbered for `attempt`.

    `stored` is `completed` or `cancelled`; a marker has no text to replay and must not be given.
    """
    return tuple(_frames(stored, attempt))


def stored_terminal(stored: StoredTurn, *, attempt: int, seq: int) -> TerminalFrame:
    """The terminal frame of a stored turn."""
    turn_id, text = stored.ref.turn_id, stored.assistant_text
    if stored.status == "cancelled":
        return ResponseCancelled(
            turn_id=turn_id,
            attempt=attempt,
            seq=seq,
            by=stored.cancelled_by or "user",
            length=len(text),
            sha256=text_digest(text),
        )
    return ResponseCompleted(
        turn_id=turn_id,
        attempt=attempt,
        seq=seq,
        stop_reason=stored.stop_reason,
        length=len(text),
        sha256=text_digest(text),
        usage=stored.usage,
        timings=stored.timings,
        sources=stored.sources,
    )


def text_digest(text: str) -> str:
    """Hex SHA-256 of the UTF-8 text, as terminal frames carry it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _frames(stored: StoredTurn, attempt: int) -> Iterator[LoggedFrame]:
    turn_id, text = stored.ref.turn_id, stored.assistant_text
    yield ResponseStarted(
        turn_id=turn_id,
        attempt=attempt,
        seq=0,
        path="stored",
        intent=stored.intent,
        model=stored.model,
    )
    seq = 1
    for piece in cut_text(text):
        yield ResponseDelta(turn_id=turn_id, attempt=attempt, seq=seq, delta=piece)
        seq += 1
    yield stored_terminal(stored, attempt=attempt, seq=seq)
