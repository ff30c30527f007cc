"""Writing the end of a turn into the store, as patiently as the turn allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.clock import Clock, Randomness
from shared.contracts.stored_turns import StoredTurn
from shared.errors import DependencyUnavailable
from shared.policy.backoff import ceiling_ms
from shared.ports import TurnStore
from shared.telemetry import Log
from shared.turn.markers import mark_end

_log = Log("archive")
_FIRST_WAIT_MS = 200
_LONGEST_WAIT_MS = 2_000


class Archive:
    """The store with patience."""

    def __init__(
        self, store: TurnStore, clock: Clock, randomness: Randomness, *, patience_ms: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._patience_s = patience_ms / 1000

    async def put(self, turn: StoredTurn) -> StoredTurn | None:
        """Store on the port's condition: None = stored, else the item that won.

        Raises DependencyUnavailable when the patience is used up, ItemTooLarge at once.
        """
        return await self._patiently(lambda: self._store.put(turn))

    async def mark(self, marker: StoredTurn) -> StoredTurn | None:
        """Put an end marker: None = marked, else the answer that is stored already.

        Raises DependencyUnavailable when the patience is used up.
        """
        return await self._patiently(lambda: mark_end(self._store, marker))

    async def _patiently(
        self, write: Callable[[], Awaitable[StoredTurn | None]]
    ) -> StoredTurn | None:
        give_up_s = self._clock.monotonic_s() + self._patience_s
        failures = 0
        while True:
            try:
                return await write()
            except DependencyUnavailable:
                failures += 1
                longest = ceiling_ms(_FIRST_WAIT_MS, failures, _LONGEST_WAIT_MS)
                wait_s = self._randomness.uniform(longest / 2, longest) / 1000
                if self._clock.monotonic_s() + wait_s >= give_up_s:
                    raise
                _log.warning("turn.not_stored_yet", failures=failures)
                await self._clock.sleep(wait_s)
