"""Whoever dies, an accepted turn ends once: the sweeper over in-memory twins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from shared.contracts.identifiers import TurnId, TurnRef, new_turn_id
from shared.contracts.ledger import Append, Claimed
from shared.contracts.model import ModelAlive
from shared.contracts.recovery import DueMove
from shared.contracts.server_frames import (
    ResponseCompleted,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
)
from shared.contracts.turns import TurnRequest
from shared.errors import DependencyUnavailable, ModelOverloaded
from shared.turn.sweeper import ACTS_AT_ONCE
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
from tests.fakes.sweep_world import Process, SweepWorld
from tests.fakes.turn_world import SESSION, follower, only, shown_text

HALF = ["Half", Forever()]
WHOLE = ["Whole answer"]


async def seconds(world: SweepWorld, duration_s: float) -> None:
    for _ in range(round(duration_s * 10)):
        await world.clock.advance(0.1)


def ends(world: SweepWorld, connection_id: str = "c1") -> list[Any]:
    kinds = ("completed", "failed", "cancelled", "expired")
    return [
        frame
        for frame in world.frames(connection_id)
        if type(frame).__name__.removeprefix("Response").lower() in kinds
    ]


async def state_of(world: SweepWorld, request: TurnRequest) -> Any:
    return await world.ledger.state(request.ref)


async def crashed_once(world: SweepWorld) -> tuple[TurnRequest, Process]:
    """A turn whose first worker dies in mid-answer."""
    worker = world.start()
    request = await world.accept("Hi")
    worker.begin(request, "inline")
    await seconds(world, 1)
    worker.die()
    return request, worker


class TestTakeover:
    @pytest.mark.parametrize("dies_after_s", [0.1, 0.4, 0.9, 1.3, 1.7, 2.2])
    @pytest.mark.case("B-17")
    async def test_p8_a_dead_workers_turn_is_claimed_again_within_six_seconds(
        self, dies_after_s: float
    ) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            worker = world.start()
            world.queue.process = world.start("worker-2")
            request = await world.accept("Hi")
            worker.begin(request, "inline")
            await seconds(world, dies_after_s)
            worker.die()
            await seconds(world, 6)
            assert (await state_of(world, request)).attempt == 2
            await seconds(world, 1)

        assert world.queue.names() == ["retry"]
        assert world.queue.sent[0][1].attempt_hint == 1
        end = only(world.frames(), ResponseCompleted)
        assert end.attempt == 2
        second = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 2]
        assert shown_text(second) == "Whole answer"
        assert "TakeoverStarted" in world.metrics.getvalue()

    async def test_p4_a_frozen_worker_that_comes_back_is_fenced(self) -> None:
        world = SweepWorld(["Old ", Wait(9), "text"], WHOLE)
        async with world.sweeping():
            worker = world.start()
            world.queue.process = world.start("worker-2")
            request = await world.accept("Hi")
            old = worker.begin(request, "inline")
            await seconds(world, 1)
            worker.freeze()
            await seconds(world, 6)
            worker.thaw()
            await seconds(world, 6)
            assert (await old).outcome == "superseded"

        assert len(ends(world)) == 1
        (item,) = world.store.items.values()
        assert (item.assistant_text, item.attempt) == ("Whole answer", 2)
        frames = world.frames()
        first_of_second = next(i for i, f in enumerate(frames) if getattr(f, "attempt", 0) == 2)
        assert all(getattr(frame, "attempt", 2) == 2 for frame in frames[first_of_second:])

    @pytest.mark.case("B-03")
    async def test_a_living_worker_is_left_alone_whatever_is_delivered_again(self) -> None:
        world = SweepWorld(["Slow ", Wait(12), ModelAlive(), Wait(12), "answer"])
        async with world.sweeping():
            worker, second = world.start(), world.start("worker-2")
            request = await world.accept("Hi")
            worker.begin(request, "burst")
            await seconds(world, 15)
            again = second.begin(request, "burst")
            await seconds(world, 20)
            assert (await again).outcome == "refused"

        assert len(world.model.calls) == 1
        assert world.queue.sent == []
        assert shown_text(world.frames()) == "Slow answer"

    async def test_targets_alternate_until_somebody_claims(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            await crashed_once(world)
            await seconds(world, 4)
            assert (world.queue.names(), len(world.intake.offered)) == (["retry"], 0)
            await seconds(world, 5)
            assert (world.queue.names(), len(world.intake.offered)) == (["retry"], 1)
            world.queue.process = world.start("worker-2")
            await seconds(world, 6)

        assert world.queue.names()[:2] == ["retry", "retry"]
        assert world.intake.offered[0].attempt_hint == 1
        assert only(world.frames(), ResponseCompleted).attempt == 2

    async def test_kept_slots_of_the_intake_rescue_a_turn_whose_message_was_lost(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            await crashed_once(world)
            world.intake.process = world.start("worker-2")
            await seconds(world, 10)

        assert world.queue.names() == ["retry"]
        assert only(world.frames(), ResponseCompleted).attempt == 2

    async def test_a_queue_that_cannot_be_asked_costs_no_reservation(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        world.queue.unavailable = True
        async with world.sweeping():
            await crashed_once(world)
            world.intake.process = world.start("worker-2")
            await seconds(world, 5)

        assert only(world.frames(), ResponseCompleted).attempt == 2

    async def test_an_intake_that_cannot_be_asked_is_survived(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        world.intake.unavailable = True
        async with world.sweeping():
            await crashed_once(world)
            await seconds(world, 10)
            world.queue.process = world.start("worker-2")
            await seconds(world, 5)

        assert world.queue.names() == ["retry", "retry"]
        assert only(world.frames(), ResponseCompleted).attempt == 2

    async def test_unclaimed_for_45_s_it_fails_with_evidence(self) -> None:
        world = SweepWorld(HALF)
        world.intake.unavailable = True
        async with world.sweeping():
            request, _ = await crashed_once(world)
            await seconds(world, 55)
            assert (await state_of(world, request)).status == "failed"

        assert set(world.queue.names()) == {"retry"}
        end = only(world.frames(), ResponseFailed)
        assert (end.code, end.attempt, end.seq, end.partial) == ("attempts_exhausted", 1, 2, True)
        ((queue, letter),) = world.dead_letters.letters
        assert (queue, letter.klass, letter.error.type) == ("burst", "failed", "TurnUnclaimed")
        assert [attempt.worker for attempt in letter.attempts] == ["worker-1"]
        (marker,) = world.store.items.values()
        assert (marker.status, marker.attempt) == ("marker", 1)

    async def test_two_crashed_attempts_are_poison_and_get_no_third_try(self) -> None:
        world = SweepWorld(HALF)
        async with world.sweeping():
            request, _ = await crashed_once(world)
            second = world.queue.process = world.start("worker-2")
            await seconds(world, 5)
            assert (await state_of(world, request)).attempt == 2
            second.die()
            third = world.queue.process = world.intake.process = world.start("worker-3")
            leftovers = []
            for _ in range(50):  # messages of earlier dispatches, whenever they come
                leftovers.append(third.begin(request, "burst"))
                await world.clock.advance(0.1)
            assert {(await each).outcome for each in leftovers} == {"refused"}

        assert len(world.model.calls) == 2
        end = only(world.frames(), ResponseFailed)
        assert (end.code, end.attempt) == ("attempts_exhausted", 2)
        ((_, letter),) = world.dead_letters.letters
        assert letter.klass == "poison"
        assert [(each.worker, each.outcome) for each in letter.attempts] == [
            ("worker-1", "crashed"),
            ("worker-2", "crashed"),
        ]
        assert all(each.ended_at_ms > each.started_at_ms for each in letter.attempts)

    async def test_a_takeover_that_fails_keeps_the_lost_attempt_as_evidence_too(self) -> None:
        world = SweepWorld(HALF, [KeyError("a bug")])
        async with world.sweeping():
            await crashed_once(world)
            world.queue.process = world.start("worker-2")
            await seconds(world, 6)

        ((_, letter),) = world.dead_letters.letters
        assert [(each.attempt, each.worker, each.outcome) for each in letter.attempts] == [
            (1, "worker-1", "crashed"),
            (2, "worker-2", "failed"),
        ]

    async def test_of_two_sweepers_one_dispatches(self) -> None:
        world = SweepWorld(HALF, sweepers=4)
        world.due._held_ms = 0  # no holdings: all sweepers see all entries
        async with world.sweeping():
            await crashed_once(world)
            await seconds(world, 6)

        assert world.queue.names() == ["retry"]

    async def test_a_worker_that_is_stopped_hands_over_at_once(self) -> None:
        world = SweepWorld(HALF, WHOLE)
        async with world.sweeping():
            worker = world.start()
            request = await world.accept("Hi")
            task = worker.begin(request, "inline")
            await seconds(world, 1)
            world.queue.process = world.start("worker-2")
            task.cancel()
            await seconds(world, 1)
            assert world.queue.names() == ["retry"]
            turn = (await world.due.look([request.ref], world.clock.now_ms()))[0]
            assert turn is not None

        assert turn.recovery.crashes == 0
        assert only(world.frames(), ResponseCompleted).attempt == 2


class TestStoredAnswer:
    async def test_an_answer_stored_before_the_crash_is_delivered_instead_of_failing(self) -> None:
        """Both attempts died behind the store: the end is `completed`, with the text that is stored."""
        world = SweepWorld(WHOLE)
        async with world.sweeping():
            request = await world.accept("Hi")
            for number in (1, 2):
                worker = world.start(f"worker-{number}")
                finish = world.ledger.finish

                async def dying_finish(*args: Any, worker: Process = worker, **kwargs: Any) -> Any:
                    worker.die()
                    await worker.alive.wait()
                    raise DependencyUnavailable("dead")

                world.ledger.finish = dying_finish  # type: ignore[method-assign]
                worker.begin(request, "inline")
                await seconds(world, 3.4)
                world.ledger.finish = finish  # type: ignore[method-assign]
                assert (await state_of(world, request)).attempt == number
            world.queue.process = world.start("worker-3")
            await seconds(world, 12)

        assert len(world.model.calls) == 1
        assert world.dead_letters.letters == []
        end = only(world.frames(), ResponseCompleted)
        assert end.attempt == 3
        third = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 3]
        assert only(third, ResponseStarted).path == "stored"
        assert shown_text(third) == "Whole answer"

    async def test_delivery_is_asked_for_again_until_somebody_claims_it(self) -> None:
        world = SweepWorld(HALF)
        async with world.sweeping():
            request, _ = await crashed_once(world)
            await store_answer(world, request)
            await seconds(world, 70)
            assert (await state_of(world, request)).status == "running"
            world.queue.process = world.start("worker-2")
            await seconds(world, 11)

        assert only(world.frames(), ResponseCompleted).attempt == 2
        assert shown_text([f for f in world.frames() if getattr(f, "attempt", 0) == 2]) == "Stored"

    async def test_it_is_delivered_although_nobody_reads_any_more(self) -> None:
        world = SweepWorld(HALF)
        async with world.sweeping():
            request, _ = await crashed_once(world)
            await store_answer(world, request)
            await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
            await seconds(world, 20)
            world.queue.process = world.start("worker-2")
            await seconds(world, 40)
            assert (await state_of(world, request)).status == "completed"

    async def test_a_delivered_answer_is_seen_by_the_next_turn(self) -> None:
        world = SweepWorld(WHOLE, HALF, WHOLE)
        async with world.sweeping():
            worker = world.start()
            first = worker.begin(await world.accept("First"), "inline")
            await seconds(world, 1)
            assert (await first).status == "completed"
            second, _ = await crashed_once(world)
            await store_answer(world, second)
            world.queue.process = world.start("worker-2")
            await seconds(world, 5)
            await world.queue.process.begin(await world.accept("Third"), "inline")

        history = world.model.calls[-1].prompt
        assert "Stored" in str(history)
        assert "Whole answer" in str(history)

    async def test_while_the_store_is_away_the_end_is_put_off_then_comes_all_the_same(self) -> None:
        world = SweepWorld(HALF)
        async with world.sweeping():
            request, _ = await crashed_once(world)
            world.store.unavailable = True
            await seconds(world, 80)
            assert (await state_of(world, request)).status == "running"
            await seconds(world, 20)

        assert only(world.frames(), ResponseFailed).code == "attempts_exhausted"


async def store_answer(world: SweepWorld, request: TurnRequest) -> None:
    """The dead worker had stored its answer."""
    source = SweepWorld(["Stored"])
    async with source.running():
        await source.answer("Hi")
    (item,) = source.store.items.values()
    world.store.items[request.ref] = msgspec.structs.replace(item, ref=request.ref, nonce="x")


class TestRetry:
    async def test_a_postponed_retry_that_nobody_claims_fails_45_s_after_its_time(self) -> None:
        world = SweepWorld([ModelOverloaded("busy", retry_after_ms=10_000)])
        world.limits = replace(world.limits, retry_in_process_limit_ms=4_000)
        async with world.sweeping():
            worker = world.start()
            request = await world.accept("Hi")
            result = await worker.begin(request, "burst")
            assert (result.outcome, result.delay_ms >= 10_000) == ("retry_later", True)
            await seconds(world, 14)
            assert world.intake.offered == []
            await seconds(world, 3)
            assert len(world.intake.offered) == 1
            await seconds(world, 50)

        end = only(world.frames(), ResponseFailed)
        assert (end.code, end.retryable) == ("deadline_exceeded", True)
        assert world.dead_letters.letters == []


class TestNeverClaimed:
    async def test_gateway_killed_between_accept_and_dispatch(self) -> None:
        world = SweepWorld()
        async with world.sweeping():
            request = await world.accept("Hi")
            await seconds(world, 4.5)
            assert world.dispatcher.dispatched == []
            await seconds(world, 1.5)

        assert [each.turn_id for each in world.dispatcher.dispatched] == [request.turn_id]

    async def test_a_head_that_is_shed_again_and_again_expires_with_its_frame(self) -> None:
        world = SweepWorld()
        async with world.sweeping():
            request = await world.accept("Hi")
            await seconds(world, 46)
            assert (await state_of(world, request)).status == "expired"

        assert 7 <= len(world.dispatcher.dispatched) <= 9
        (end,) = ends(world)
        assert isinstance(end, ResponseExpired)
        assert (end.attempt, end.seq, end.retryable) == (0, 0, True)
        assert end.age_ms >= 45_000
        assert "SweptExpired" in world.metrics.getvalue()
        assert world.store.puts == 0
        assert world.dead_letters.letters == []

    async def test_a_lost_message_is_offered_once_to_the_intake(self) -> None:
        world = SweepWorld(WHOLE)
        async with world.sweeping():
            world.intake.process = world.start()
            request = await world.accept("Hi")
            await world.ledger.mark_placed(request.ref, "burst", world.clock.now_ms())
            await seconds(world, 19.5)
            assert world.intake.offered == []
            await seconds(world, 2)

        assert only(world.frames(), ResponseCompleted).attempt == 1
        (offered,) = world.intake.offered
        assert (offered.attempt_hint, offered.enqueued_at_ms > 0) == (0, True)

    async def test_with_the_trigger_off_and_no_slot_the_turn_expires(self) -> None:
        world = SweepWorld()
        async with world.sweeping():
            request = await world.accept("Hi")
            await world.ledger.mark_placed(request.ref, "burst", world.clock.now_ms())
            await seconds(world, 46)

        assert len(world.intake.offered) == 1
        assert world.queue.sent == []
        assert world.dispatcher.dispatched == []
        assert isinstance(ends(world)[0], ResponseExpired)

    async def test_an_intake_that_cannot_be_asked_is_survived(self) -> None:
        world = SweepWorld()
        world.intake.unavailable = True
        async with world.sweeping():
            request = await world.accept("Hi")
            await world.ledger.mark_placed(request.ref, "burst", world.clock.now_ms())
            await seconds(world, 46)

        assert len(ends(world)) == 1

    async def test_a_head_popped_by_a_finisher_that_died_is_dispatched(self) -> None:
        world = SweepWorld()
        async with world.sweeping():
            first, second = await world.accept("One"), await world.accept("Two")
            claimed = await world.ledger.claim(
                first,
                nonce="n",  # type: ignore[arg-type]
                worker="w",
                path="inline",
                grace_ms=15_000,
                now_ms=world.clock.now_ms(),
            )
            assert isinstance(claimed, Claimed)
            for _ in range(7):
                await seconds(world, 1)
                await world.ledger.renew_many([claimed.ref], world.clock.now_ms())
            assert world.dispatcher.dispatched == []
            await world.ledger.finish(
                Append(claimed.ref, 0, (b"started", b"end")),
                status="completed",
                history=None,
                now_ms=world.clock.now_ms(),
            )
            await seconds(world, 11)

        assert {each.turn_id for each in world.dispatcher.dispatched} == {second.turn_id}

    @pytest.mark.case("B-27")
    async def test_the_end_of_a_head_dispatches_the_next(self) -> None:
        world = SweepWorld(stale_after_ms=3_000)
        async with world.sweeping():
            first, second = await world.accept("One"), await world.accept("Two")
            await world.ledger.mark_placed(first.ref, "burst", world.clock.now_ms())
            await seconds(world, 6)

        assert world.dispatcher.dispatched[0].turn_id == second.turn_id

    async def test_a_background_turn_is_sent_to_its_own_queue_again_never_to_the_intake(
        self,
    ) -> None:
        world = SweepWorld(low_limit_ms=60_000)
        async with world.sweeping():
            request = await world.accept("Hi", detached=True, priority="low", ready_at_ms=0)
            await world.ledger.mark_placed(request.ref, "queue", world.clock.now_ms())
            await seconds(world, 62)

        assert [each.turn_id for each in world.dispatcher.dispatched] == [request.turn_id]
        assert world.intake.offered == []
        assert (await state_of(world, request)).status == "expired"

    async def test_a_lapsed_background_turn_goes_to_its_own_queue_second(self) -> None:
        world = SweepWorld(HALF)
        async with world.sweeping():
            worker = world.start()
            request = await world.accept("Hi", detached=True, priority="low", ready_at_ms=0)
            worker.begin(request, "queue")
            await seconds(world, 1)
            worker.die()
            await seconds(world, 9)

        assert world.queue.names() == ["retry", "background"]
        assert world.intake.offered == []


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
