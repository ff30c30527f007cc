"""Whoever dies, an accepted turn ends once: the sweeper over in-memory twins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.contracts.identifiers import TurnId, TurnRef, new_turn_id
from shared.contracts.ledger import Claimed
from shared.contracts.model import ModelAlive
from shared.contracts.recovery import DueMove
from shared.contracts.server_frames import (
    ResponseCompleted,
)
from shared.contracts.turns import TurnRequest
from shared.errors import DependencyUnavailable
from shared.turn.sweeper import ACTS_AT_ONCE
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
from tests.fakes.sweep_world import SweepWorld, crashed_once, ends, seconds, state_of
from tests.fakes.turn_world import SESSION, only, shown_text

HALF = ["Half", Forever()]
WHOLE = ["Whole answer"]


class TestOvertaken:
    """Between the look and the act the turn was claimed, reserved or ended by somebody else: nothing is done."""

    @staticmethod
    async def judged_late(world: SweepWorld, request: TurnRequest) -> None:
        """The sweeper acts on the turn as it is now, but only after a worker has claimed it."""
        (seen,) = await world.due.look([request.ref], world.clock.now_ms())
        answer = await world.ledger.claim(
            request,
            nonce="n",  # type: ignore[arg-type]
            worker="w",
            path="inline",
            grace_ms=15_000,
            now_ms=world.clock.now_ms(),
        )
        assert isinstance(answer, Claimed)

        async def look(turns: Any, now_ms: int) -> Any:
            return [seen for _ in turns]

        async def renew() -> None:
            while True:
                await world.ledger.renew_many([answer.ref], world.clock.now_ms())
                await world.clock.sleep(1)

        world.due.look = look  # type: ignore[method-assign]
        world.ledger.due_at_ms[request.ref] = world.clock.now_ms()
        world.renewing = asyncio.create_task(renew())  # type: ignore[attr-defined]

    @pytest.mark.parametrize("placed", ["inline", "burst"])
    async def test_a_dispatch_or_an_expiry_that_a_claim_overtook(self, placed: Any) -> None:
        world = SweepWorld(sweepers=1)
        async with world.sweeping():
            request = await world.accept("Hi")
            if placed == "burst":
                await world.ledger.mark_placed(request.ref, placed, world.clock.now_ms())
            await self.judged_late(world, request)
            await seconds(world, 50)
            assert (await state_of(world, request)).status == "running"
            world.renewing.cancel()  # type: ignore[attr-defined]

        assert world.dispatcher.dispatched == []
        assert world.intake.offered == []
        assert ends(world) == []

    @pytest.mark.parametrize("lost_for_s", [10, 40], ids=["takeover", "failure"])
    async def test_a_takeover_or_a_failure_that_a_claim_overtook(self, lost_for_s: int) -> None:
        world = SweepWorld(HALF, sweepers=1)
        async with world.sweeping():
            request, _ = await crashed_once(world)
            world.queue.unavailable = True
            await seconds(world, lost_for_s)
            (seen,) = await world.due.look([request.ref], world.clock.now_ms())
            assert seen is not None
            sent = len(world.intake.offered)
            world.clock.skip(5)
            await self.judged_late(world, request)
            await seconds(world, 12)
            assert (await state_of(world, request)).status == "running"
            world.renewing.cancel()  # type: ignore[attr-defined]

        assert len(world.intake.offered) == sent
        assert ends(world) == []


class TestLedgerAway:
    async def test_no_takeover_of_living_workers_when_redis_comes_back(self) -> None:
        world = SweepWorld(["Slow ", Wait(12), ModelAlive(), Wait(12), "answer"])
        async with world.sweeping():
            worker = world.start()
            request = await world.accept("Hi")
            worker.begin(request, "inline")
            await seconds(world, 1)
            world.ledger.unavailable = True
            await seconds(world, 10)
            world.ledger.unavailable = False
            await seconds(world, 20)
            assert (await state_of(world, request)).attempt == 1

        assert world.queue.sent == []
        assert shown_text(world.frames()) == "Slow answer"
        assert len(ends(world)) == 1

    async def test_after_an_outage_however_short_nothing_is_done_for_a_full_lease(self) -> None:
        world = SweepWorld()
        async with world.sweeping():
            world.ledger.unavailable = True
            await seconds(world, 1)
            world.ledger.unavailable = False
            world.ledger.calls.clear()
            await seconds(world, 2.9)
            assert set(world.ledger.calls) == {"ask"}
            await seconds(world, 2)
            assert "due" in world.ledger.calls

    async def test_a_worker_that_died_meanwhile_is_taken_over_after_a_full_lease(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            await crashed_once(world)
            world.queue.process = world.start("worker-2")
            world.ledger.unavailable = True
            await seconds(world, 60)
            world.ledger.unavailable = False
            await seconds(world, 2.5)
            assert world.queue.sent == []
            await seconds(world, 3)

        assert only(world.frames(), ResponseCompleted).attempt == 2

    async def test_an_act_that_meets_an_absent_ledger_is_done_later(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            await crashed_once(world)
            world.queue.process = world.start("worker-2")
            reserve, failures = world.due.reserve, 1

            async def failing_once(*args: Any, **kwargs: Any) -> bool:
                nonlocal failures
                if failures:
                    failures -= 1
                    raise DependencyUnavailable("no answer")
                return await reserve(*args, **kwargs)

            world.due.reserve = failing_once  # type: ignore[method-assign]
            await seconds(world, 10)

        assert only(world.frames(), ResponseCompleted).attempt == 2


class TestLoop:
    async def test_an_entry_without_a_turn_is_removed_after_thirty_seconds(self) -> None:
        world = SweepWorld()
        now_ms = world.clock.now_ms() + 5_000
        fresh = TurnRef(SESSION, new_turn_id(SESSION.session_id, now_ms, bytes(10)))
        foreign = TurnRef(SESSION, TurnId("not ours"))
        async with world.sweeping():
            world.ledger.due_at_ms |= {fresh: now_ms, foreign: now_ms}
            await seconds(world, 29)
            assert list(world.ledger.due_at_ms) == [fresh]
            await seconds(world, 3)
            assert world.ledger.due_at_ms == {}

    async def test_an_ended_turn_leaves_the_index(self) -> None:
        world = SweepWorld(WHOLE)
        async with world.sweeping():
            worker = world.start()
            await worker.begin(await world.accept("Hi"), "inline")
            await seconds(world, 4)
            assert world.ledger.due_at_ms == {}

    async def test_one_damaged_turn_does_not_stop_the_rescue_of_others(self) -> None:
        world = SweepWorld()
        dispatch = world.dispatcher.dispatch

        async def dispatch_or_crash(request: TurnRequest) -> None:
            if request.text == "damaged":
                raise KeyError("a bug")
            await dispatch(request)

        world.dispatcher.dispatch = dispatch_or_crash  # type: ignore[method-assign]
        async with world.sweeping():
            await world.accept("damaged")
            good = await world.accept("good", session_id="s2")
            await seconds(world, 6)

        assert [each.turn_id for each in world.dispatcher.dispatched] == [good.turn_id]

    async def test_a_bug_in_a_tick_does_not_end_the_sweeper(self) -> None:
        world = SweepWorld()
        look, failures = world.due.look, 3

        async def look_or_crash(*args: Any) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise KeyError("a bug")
            return await look(*args)

        world.due.look = look_or_crash  # type: ignore[method-assign]
        async with world.sweeping():
            await world.accept("Hi")
            await seconds(world, 8)

        assert len(world.dispatcher.dispatched) == 1

    async def test_acts_at_once_are_bounded_and_nothing_is_forgotten(self) -> None:
        world = SweepWorld(sweepers=1)
        running = most = 0
        dispatch = world.dispatcher.dispatch

        async def slow_dispatch(request: TurnRequest) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await world.clock.sleep(0.7)
            running -= 1
            await dispatch(request)

        world.dispatcher.dispatch = slow_dispatch  # type: ignore[method-assign]
        async with world.sweeping():
            for number in range(3 * ACTS_AT_ONCE):
                await world.accept("Hi", session_id=f"s{number}")
            await seconds(world, 9)

        assert most == ACTS_AT_ONCE
        assert len({each.turn_id for each in world.dispatcher.dispatched}) == 3 * ACTS_AT_ONCE

    async def test_whoever_did_not_move_the_entry_does_not_act(self) -> None:
        world = SweepWorld(sweepers=1)

        async def moved_by_another(moves: list[DueMove]) -> list[bool]:
            return [False] * len(moves)

        world.due.move = moved_by_another  # type: ignore[method-assign]
        async with world.sweeping():
            await world.accept("Hi")
            await seconds(world, 10)

        assert world.dispatcher.dispatched == []

    async def test_stopping_cuts_the_acts_under_way(self) -> None:
        world = SweepWorld(sweepers=1)
        cut = []

        async def endless(request: TurnRequest) -> None:
            try:
                await world.clock.sleep(1_000)
            finally:
                cut.append(request.turn_id)

        world.dispatcher.dispatch = endless  # type: ignore[method-assign]
        async with world.sweeping():
            request = await world.accept("Hi")
            await seconds(world, 6)
        await settle()
        assert cut == [request.turn_id]
