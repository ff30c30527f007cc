"""Waiting no longer than allowed."""

from __future__ import annotations

import asyncio

import pytest

from shared.turn.deadline import within
from tests.fakes.clock import FakeClock


async def test_within_returns_what_is_ready_in_time() -> None:
    clock = FakeClock()

    async def work() -> str:
        await clock.sleep(0.2)
        return "done"

    task = asyncio.create_task(within(clock, 300, work()))
    await clock.advance(0.2)

    assert await task == "done"


async def test_within_cancels_what_is_late() -> None:
    clock = FakeClock()
    cancelled = []

    async def work() -> None:
        try:
            await clock.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    task = asyncio.create_task(within(clock, 300, work()))
    await clock.advance(0.3)

    with pytest.raises(TimeoutError):
        await task
    assert cancelled


async def test_within_passes_errors_on() -> None:
    async def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await within(FakeClock(), 300, work())
