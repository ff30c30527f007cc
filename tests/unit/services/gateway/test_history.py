"""Pages of earlier turns."""

from __future__ import annotations

import msgspec

from services.gateway.history import History
from shared.contracts.identifiers import (
    TurnId,
    TurnRef,
)
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
