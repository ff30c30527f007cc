"""Marks in the store that a turn ended without an answer, so that an older producer cannot store one behind it."""

from __future__ import annotations

from shared.contracts.server_frames import Timings, Usage
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import EndStatus, TurnRequest

_NO_TIME = Timings(queued_ms=0, first_token_ms=0, total_ms=0)


def end_marker(
    request: TurnRequest, *, status: EndStatus, attempt: int, nonce: str, now_ms: int
) -> StoredTurn:
    """The marker of an end as `status` after `attempt`; put it before the end, under the store's condition.

    When another item wins that is no marker, an answer is stored already and the turn must not end like this.
    `nonce` recognises the writer's own marker.
    """
    return StoredTurn(
        ref=request.ref,
        message_id=request.message_id,
        attempt=attempt,
        nonce=nonce,
        status="marker",
        user_text=request.text,
        assistant_text="",
        stop_reason=status,
        intent="",
        model="",
        usage=Usage(),
        timings=_NO_TIME,
        sources=(),
        accepted_at_ms=request.accepted_at_ms,
        completed_at_ms=now_ms,
    )
