"""The last step in the ledger, whatever it loses or answers."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts.ledger import Append, FinishAnswer, LogGap
from shared.contracts.server_frames import (
    ResponseCompleted,
)
from shared.errors import (
    DependencyUnavailable,
)
from tests.fakes.model import Wait
from tests.fakes.turn_world import TurnWorld, after_put, follower, only, shown_text


async def test_redis_away_in_mid_answer_pushes_nothing_and_loses_nothing() -> None:
    script = [step for index in range(50) for step in (Wait(0.1), f"w{index} ")]
    world = TurnWorld(script)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        world.ledger.unavailable = True
        before = len(world.frames())
        await world.clock.advance(2.5)
        assert len(world.frames()) == before
        world.ledger.unavailable = False
        result = await world.finish(task)

    assert result.status == "completed"
    assert shown_text(world.frames()) == "".join(f"w{index} " for index in range(50))
    assert world.frames() == world.log(request)


@pytest.mark.parametrize("at_s", [0.45, 4.95])
async def test_a_turn_that_redis_lost_is_claimed_anew_and_said_again(at_s: float) -> None:
    script = [step for index in range(50) for step in (Wait(0.1), f"w{index} ")]
    world = TurnWorld(script)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(at_s)
        world.ledger.forget(request.ref)
        await world.ledger.follow(
            request.ref, follower(), attempt=1, after_seq=-1, now_ms=world.clock.now_ms()
        )
        result = await world.finish(task)

    assert (result.status, result.attempt) == ("completed", 2)
    log = world.log(request)
    assert {getattr(frame, "attempt", 0) for frame in log} == {2}
    assert [frame.seq for frame in log] == list(range(len(log)))  # type: ignore[union-attr]
    assert shown_text(log) == "".join(f"w{index} " for index in range(50))


@pytest.mark.case("B-21")
async def test_a_finish_whose_answer_got_lost_counts_as_ours() -> None:
    world = TurnWorld(["One"])
    real = world.ledger.finish
    tries: list[object] = []

    async def finish(append: Append, **rest: Any) -> FinishAnswer:
        tries.append(await real(append, **rest))
        if len(tries) == 1:
            raise DependencyUnavailable("the answer got lost")
        return await real(append, **rest)

    world.ledger.finish = finish  # type: ignore[method-assign]
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "completed"
    assert only(world.frames(), ResponseCompleted).length == 3


@pytest.mark.case("B-16")
async def test_an_end_that_the_ledger_never_takes_is_left_to_the_sweeper() -> None:
    world = TurnWorld(["One"], settle_patience_ms=2_000)
    async with world.running():
        request = await world.accept("Hi")
        after_put(world, lambda: setattr(world.ledger, "unavailable", True))
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.status, result.acknowledge) == ("not_settled", None, False)


async def test_a_ledger_that_loses_whatever_it_is_given_counts_as_away() -> None:
    world = TurnWorld(["Answer"])

    async def lossy(append: Append, **_: object) -> FinishAnswer:
        return LogGap(-1)

    world.ledger.finish = lossy  # type: ignore[method-assign,assignment]
    async with world.running():
        result = await world.answer("Hi", within_s=60)

    assert (result.outcome, result.acknowledge) == ("not_settled", False)
