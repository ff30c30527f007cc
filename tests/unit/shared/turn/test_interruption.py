"""Stopping a stretch of work without stopping its task."""

from __future__ import annotations

import asyncio

import pytest

from shared.turn.interruption import Interruption
from tests.fakes.clock import settle


async def test_interrupt_ends_the_block_and_the_task_goes_on() -> None:
    stretch = Interruption()

    async def work() -> str:
        async with stretch:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(work())
    await settle()
    stretch.interrupt()
    stretch.interrupt()

    assert await task == "went on"
    assert task.cancelling() == 0


async def test_a_block_that_ends_by_itself_is_not_touched() -> None:
    stretch = Interruption()
    async with stretch:
        await asyncio.sleep(0)
    stretch.interrupt()
    await asyncio.sleep(0)

    assert stretch.interrupted


async def test_cancelling_the_task_goes_through_even_together_with_an_interrupt() -> None:
    for interrupts_first in (True, False):
        stretch = Interruption()

        async def work(stretch: Interruption = stretch) -> None:
            async with stretch:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await settle()
        if interrupts_first:
            stretch.interrupt()
        task.cancel()
        stretch.interrupt()

        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_interrupt_before_the_block_ends_it_at_its_first_wait() -> None:
    stretch = Interruption()
    stretch.interrupt()
    reached = []
    async with stretch:
        reached.append("begin")
        await asyncio.sleep(0)
        reached.append("end")

    assert reached == ["begin"]


@pytest.mark.parametrize("raises", [False, True])
async def test_an_interrupt_by_the_task_itself_is_over_when_the_block_is(raises: bool) -> None:
    stretch = Interruption()
    try:
        async with stretch:
            stretch.interrupt()
            if raises:
                raise KeyError
    except KeyError:
        assert raises
    await asyncio.sleep(0)  # would raise a cancellation that was left behind


async def test_a_cancellation_that_arrives_at_the_blocks_end_is_not_lost() -> None:
    stretch = Interruption()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with stretch:
            stretch.interrupt()
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_an_error_in_an_interrupted_block_is_raised() -> None:
    stretch = Interruption()

    async def work() -> None:
        async with stretch:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise KeyError from None

    task = asyncio.create_task(work())
    await settle()
    stretch.interrupt()

    with pytest.raises(KeyError):
        await task


async def test_blocks_nest() -> None:
    outer, inner = Interruption(), Interruption()
    steps = []

    async def work() -> None:
        async with outer:
            async with inner:
                await asyncio.Event().wait()
            steps.append("inner left")
            await asyncio.Event().wait()
        steps.append("outer left")

    task = asyncio.create_task(work())
    await settle()
    inner.interrupt()
    await settle()
    outer.interrupt()
    await task

    assert steps == ["inner left", "outer left"]
