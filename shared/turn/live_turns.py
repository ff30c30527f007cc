"""The claims that this process holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from shared.turn.writer import TurnWriter


class LiveTurns:
    """Writers in the order they began; the flusher and the claim keeper work through them."""

    def __init__(self) -> None:
        self._writers: dict[TurnWriter, None] = {}
        self._some = asyncio.Event()

    def add(self, writer: TurnWriter) -> None:
        """Begin to flush and renew it."""
        self._writers[writer] = None
        self._some.set()

    def discard(self, writer: TurnWriter) -> None:
        """Stop flushing and renewing it; its lease lapses unless the turn has ended."""
        self._writers.pop(writer, None)
        if not self._writers:
            self._some.clear()

    async def wait_for_some(self) -> None:
        """Return as soon as there is at least one."""
        await self._some.wait()

    def __iter__(self) -> Iterator[TurnWriter]:
        return iter(tuple(self._writers))

    def __len__(self) -> int:
        return len(self._writers)

    def __contains__(self, writer: object) -> bool:
        return writer in self._writers
