"""A process that runs turns, as its composition root sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from shared.contracts.server_frames import ResponseCompleted, ResponseDelta
from shared.contracts.turns import TurnRequest
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
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


async def leaves_by_itself(world: TurnWorld, request: TurnRequest) -> None:
    await world.ledger.unfollow([request.ref], follower("leaver"), world.clock.now_ms())


async def connection_breaks(world: TurnWorld, request: TurnRequest) -> None:
    world.push.gone.add("leaver")


async def is_replaced_by_a_sixth(world: TurnWorld, request: TurnRequest) -> None:
    for number in range(5):
        await world.ledger.follow(
            request.ref,
            follower(f"c{number}"),
            attempt=None,
            after_seq=-1,
            now_ms=world.clock.now_ms(),
        )


@pytest.mark.parametrize("depart", [leaves_by_itself, connection_breaks, is_replaced_by_a_sixth])
async def test_nothing_is_kept_of_readers_that_left_before_the_end(
    depart: Callable[[TurnWorld, TurnRequest], Awaitable[None]],
) -> None:
    world = TurnWorld(["Hello", Wait(2), " and", Wait(2), " goodbye"])
    async with world.running():
        request = await world.accept(reader=follower("leaver"))
        task = world.begin(request)
        await world.clock.advance(1)
        await depart(world, request)
        await world.finish(task)
        await world.clock.advance(5)

    assert not world.engine.pusher._endpoints
    assert not world.engine.pusher._tasks


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
