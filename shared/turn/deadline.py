"""Waiting for something no longer than the clock port allows."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from shared.clock import Clock
from shared.turn.interruption import Interruption

T = TypeVar("T")


async def within(clock: Clock, duration_ms: float, work: Coroutine[object, object, T]) -> T:
    """The result of `work`, or TimeoutError after `duration_ms`, with `work` cancelled."""
    limit = Interruption()

    async def expire() -> None:
        await clock.sleep(duration_ms / 1000)
        limit.interrupt()

    timer = asyncio.create_task(expire())
    try:
        async with limit:
            return await work
    finally:
        timer.cancel()
    raise TimeoutError
