"""Pages of earlier turns."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from services.gateway.history import History
from shared.contracts.identifiers import (
    TurnId,
    TurnRef,
)
from shared.contracts.server_frames import SourceLink, Timings
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.use_case_world import (
    SESSION,
    stored_turn,
)


async def test_a_page_of_history_ends_at_its_size_but_holds_at_least_one_turn() -> None:
    store = FakeTurnStore()
    for number in range(3):
        turn_id = TurnId(f"s.01ARZ3NDEKTSV4RRFFQ69G5FA{number}")
        stored = stored_turn(TurnRef(SESSION, turn_id))
        await store.put(msgspec.structs.replace(stored, assistant_text="x" * 1_000))
    sizes = []
    for page_bytes in (10, 2_600, 99_999):
        page = await History(store, page_bytes).page(SESSION, before=None, limit=50)
        sizes.append((len(page.turns), page.more))
    assert sizes == [(1, True), (2, True), (3, False)]


async def test_earlier_turns_tell_what_their_frames_told_when_they_were_live() -> None:
    store = FakeTurnStore()
    sources = (SourceLink(title="Akira", id="akira"),)
    for number, status in enumerate(("completed", "cancelled")):
        turn_id = TurnId(f"s.01ARZ3NDEKTSV4RRFFQ69G5FA{number}")
        stored = stored_turn(TurnRef(SESSION, turn_id))
        await store.put(
            msgspec.structs.replace(stored, status=status, path="burst", sources=sources)
        )

    stopped, whole = (await History(store, 9_999).page(SESSION, before=None, limit=9)).turns

    assert (whole.path, whole.intent, whole.sources) == ("burst", "general", sources)
    assert isinstance(whole.timings, Timings)
    assert (stopped.path, stopped.sources, stopped.timings) == ("burst", (), UNSET)
