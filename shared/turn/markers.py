"""Marks in the store that a turn ended without an answer, so that an older producer cannot store one behind it."""

from __future__ import annotations

from shared.contracts.server_frames import Timings, Usage
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import EndStatus, TurnRequest
from shared.ports import TurnStore

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


async def mark_end(store: TurnStore, marker: StoredTurn) -> StoredTurn | None:
    """Put the marker; or the answer that is stored already, of whichever attempt: then nothing is marked.

    The store's condition alone would let the marker of a later attempt replace the answer of an earlier one that died
    before it could say so. Raises DependencyUnavailable.
    """
    if marker.attempt > 1:
        known = await store.get(marker.ref)
        if is_answer(known):
            return known
    winner = await store.put(marker)
    return winner if is_answer(winner) else None


def is_answer(item: StoredTurn | None) -> bool:
    """True when the item holds an answer, whole or stopped."""
    return item is not None and item.status != "marker"
