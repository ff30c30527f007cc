"""The in-memory twin of the table of turns; it passes tests/contract/test_turn_store.py."""

from __future__ import annotations

from shared.contracts.identifiers import SessionRef, TurnId, TurnRef
from shared.contracts.stored_turns import StoredPage, StoredTurn
from shared.errors import ConfigurationError, DependencyUnavailable, ItemTooLarge

_ITEM_LIMIT_BYTES = 400_000


class FakeTurnStore:
    """TurnStore over a dictionary.

    `unavailable` makes every call raise as if nobody answered, `refusing` as if the table's policy forbade it.
    `failing_puts` counts down puts that raise, `lost_answers` puts that store and then raise. `puts` and `reads` count
    round trips.
    """

    def __init__(self) -> None:
        self.items: dict[TurnRef, StoredTurn] = {}
        self.unavailable = False
        self.refusing = False
        self.failing_puts = 0
        self.lost_answers = 0
        self.puts = 0
        self.reads = 0

    async def put(self, turn: StoredTurn) -> StoredTurn | None:
        self.puts += 1
        self._ask()
        if self.failing_puts:
            self.failing_puts -= 1
            raise DependencyUnavailable("the fake store refused this put")
        if len(turn.user_text.encode()) + len(turn.assistant_text.encode()) > _ITEM_LIMIT_BYTES:
            raise ItemTooLarge("above the item limit")
        known = self.items.get(turn.ref)
        if known is not None and known.attempt >= turn.attempt and known.nonce != turn.nonce:
            return known
        self.items[turn.ref] = turn
        if self.lost_answers:
            self.lost_answers -= 1
            raise DependencyUnavailable("the fake store's answer got lost")
        return None

    async def get(self, turn: TurnRef) -> StoredTurn | None:
        self.reads += 1
        self._ask()
        return self.items.get(turn)

    async def newest(
        self, session: SessionRef, *, limit: int, before: TurnId | None = None
    ) -> StoredPage:
        self.reads += 1
        self._ask()
        turns = [
            turn
            for ref, turn in self.items.items()
            if ref.session == session
            and turn.status != "marker"
            and (before is None or ref.turn_id < before)
        ]
        turns.sort(key=lambda turn: turn.ref.turn_id, reverse=True)
        return StoredPage(tuple(turns[:limit]), len(turns) > limit)

    def _ask(self) -> None:
        if self.unavailable:
            raise DependencyUnavailable("the fake store was told to be away")
        if self.refusing:
            raise ConfigurationError("the fake store was told to refuse")
