"""Writing the end of a turn into the store, as patiently as the turn allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.clock import Clock, Randomness
from shared.contracts.stored_turns import StoredTurn
from shared.ports import TurnStore
from shared.turn.markers import mark_end
from shared.turn.patience import Patience

_FIRST_WAIT_MS = 200
_LONGEST_WAIT_MS = 2_000


class Archive:
    """The store with patience."""

    def __init__(
        self, store: TurnStore, clock: Clock, randomness: Randomness, *, patience_ms: int
    ) -> None:
        self._store = store
        self._patience = Patience(
            work="store",
            clock=clock,
            randomness=randomness,
            first_wait_ms=_FIRST_WAIT_MS,
            longest_wait_ms=_LONGEST_WAIT_MS,
        )
        self._patience_ms = patience_ms

    async def put(self, turn: StoredTurn) -> StoredTurn | None:
        """Store on the port's condition: None = stored, else the item that won.

        Raises DependencyUnavailable when the patience is used up, every other ChatError at once.
        """
        return await self._patiently(lambda: self._store.put(turn))

    async def mark(self, marker: StoredTurn) -> StoredTurn | None:
        """Put an end marker: None = marked, else the answer that is stored already.

        Raises DependencyUnavailable when the patience is used up, every other ChatError at once.
        """
        return await self._patiently(lambda: mark_end(self._store, marker))

    async def _patiently(
        self, write: Callable[[], Awaitable[StoredTurn | None]]
    ) -> StoredTurn | None:
        return await self._patience.until_done(write, limit_ms=self._patience_ms)
