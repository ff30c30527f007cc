"""The background of a worker as a part of its process."""

from __future__ import annotations

import asyncio


class WorkerBackground:
    """Flushing and renewing as a part: turns that no longer flush or renew must not be taken."""

    name = "worker_background"

    def __init__(self, background: asyncio.Task[None]) -> None:
        self._background = background

    async def run(self) -> None:
        """Run until the background ends, which only a crash does before the worker closes."""
        await asyncio.shield(self._background)
