"""The index that this process answers from, exchanged behind the turns' backs when a new one appears."""

from __future__ import annotations

import asyncio

from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.index_sources import IndexSource
from shared.clock import Clock
from shared.errors import ChatError, DependencyUnavailable
from shared.telemetry import Log


class WatchedIndex:
    """Holds one index; `current` never waits. An exchange is one assignment, so a search sees one index only."""

    def __init__(self, source: IndexSource, clock: Clock, *, poll_interval_ms: int) -> None:
        self._source = source
        self._clock = clock
        self._poll_interval_s = poll_interval_ms / 1_000
        self._index: KnowledgeIndex | None = None
        self._version: str | None = None
        self._log = Log("watched_index")

    def current(self) -> KnowledgeIndex:
        """The newest index that was loaded. Raises DependencyUnavailable before the first."""
        if self._index is None:
            raise DependencyUnavailable("no knowledge index is loaded")
        return self._index

    async def refresh(self) -> bool:
        """Load the index if a new one is there, in a thread; True when it was exchanged.

        Raises DependencyUnavailable or IncompatibleIndex; the old index stays. A cancelled call changes nothing.
        """
        fetched = await asyncio.to_thread(self._source.fetch, self._version)
        if fetched is None:
            return False
        self._index, self._version = fetched
        self._log.info("index.loaded", passages=len(self._index.passages), version=self._version)
        return True

    async def run(self) -> None:
        """Refresh now and then every poll interval, until cancelled; failures are logged, the old index stays."""
        while True:
            try:
                await self.refresh()
            except ChatError as error:
                self._log.warning(
                    "index.not_loaded",
                    error_type=type(error).__name__,
                    has_older=self._index is not None,
                )
            await self._clock.sleep(self._poll_interval_s)
