"""A process that runs turns, as its composition root sees it."""

from __future__ import annotations

import asyncio

import pytest

from shared.contracts.server_frames import ResponseCompleted, ResponseDelta
from tests.fakes.clock import settle
from tests.fakes.model import Forever
from tests.fakes.turn_world import GATEWAY, TurnWorld, follower, only


async def test_close_waits_for_the_pushes_under_way() -> None:
    world = TurnWorld(["Hello"])
    world.push.latency_s[GATEWAY] = 1
    async with world.running():
        task = world.begin(await world.accept())
        await settle()
        assert task.done()
        closing = asyncio.create_task(world.engine.close())
        await settle()
        assert not closing.done()
        await world.clock.advance(2)
        await closing

    only(world.frames(), ResponseCompleted)


async def test_nothing_is_kept_of_turns_that_ended() -> None:
    world = TurnWorld(["Hello"])
    async with world.running():
        for number in range(50):
            await world.answer(session_id=f"s{number}", reader=follower(f"c{number}"))

    assert not world.engine.pusher._endpoints
    assert not world.engine.pusher._tasks
    assert len(world.engine.keeper._live) == 0


async def test_a_crashed_loop_is_raised_to_the_process() -> None:
    world = TurnWorld(["Half", Forever()])

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    world.ledger.renew_many = broken  # type: ignore[method-assign,assignment]
    loops = asyncio.create_task(world.engine.run())
    task = world.begin(await world.accept())
    await world.clock.advance(2)

    with pytest.raises(ExceptionGroup):
        await loops
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_cut_claim_is_given_up_even_when_the_ledger_is_away() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(0.2)
        world.ledger.unavailable = True
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert world.model.open_calls == 0


async def test_a_turn_that_was_lost_with_its_stop_is_stopped_when_claimed_anew() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.2)
        world.ledger.forget(request.ref)
        real = world.ledger.claim

        async def claim_then_stop(*args: object, **rest: object) -> object:
            await real(*args, **rest)  # type: ignore[arg-type]
            await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
            return await real(*args, **rest)  # type: ignore[arg-type]

        world.ledger.claim = claim_then_stop  # type: ignore[method-assign,assignment]
        result = await world.finish(task)

    assert (result.status, result.attempt) == ("cancelled", 2)
    assert [f.delta for f in world.log(request) if isinstance(f, ResponseDelta)] == ["Half"]
