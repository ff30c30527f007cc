"""Dispatching an unclaimed turn again: a reservation first, then one message or one offer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.contracts.ledger import Append, Claimed
from shared.contracts.model import ModelAlive
from shared.contracts.server_frames import (
    ResponseCompleted,
    ResponseFailed,
)
from shared.errors import ModelOverloaded
from shared.policy.limits import DetachedLimits
from shared.turn.interruption import Interruption
from tests.fakes.model import Forever, Wait
from tests.fakes.sweep_world import SweepWorld, crashed_once, ends, seconds, state_of
from tests.fakes.turn_world import only, shown_text


async def test_a_turn_that_its_consumer_sends_is_not_sent_by_the_sweeper_as_well() -> None:
    world = SweepWorld(["Half", Forever()])
    give_up = Interruption()
    async with world.sweeping():
        worker = world.start()
        request = await world.accept("Hi")
        task = asyncio.create_task(worker.engine.pipeline.run(request, "burst", give_up=give_up))
        worker.turns.append(task)
        await seconds(world, 1)
        give_up.interrupt()
        await seconds(world, 3)
        assert (await task).outcome == "retry_later"
        assert world.queue.sent == []
        assert world.intake.offered == []
        await seconds(world, 5)

    # Its message got lost: the other target is asked once the reservation is over.
    assert len(world.intake.offered) == 1


HALF = ["Half", Forever()]
WHOLE = ["Whole answer"]


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

    async def test_an_intake_that_cannot_be_asked_is_survived(self) -> None:
        world = SweepWorld()
        world.intake.unavailable = True
        async with world.sweeping():
            request = await world.accept("Hi")
            await world.ledger.mark_placed(request.ref, "burst", world.clock.now_ms())
            await seconds(world, 46)

        assert len(ends(world)) == 1

    async def test_an_offer_that_nobody_could_take_is_made_when_somebody_can(self) -> None:
        world = SweepWorld()
        world.intake.unavailable = True
        async with world.sweeping():
            request = await world.accept("Hi")
            await world.ledger.mark_placed(request.ref, "burst", world.clock.now_ms())
            await seconds(world, 22)
            world.intake.unavailable = False
            await seconds(world, 5)
            assert len(world.intake.offered) == 1
            world.intake.offered.clear()
            await seconds(world, 15)
            assert world.intake.offered == []

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

    async def test_a_background_turn_is_sent_to_its_own_queue_again_never_to_the_intake(
        self,
    ) -> None:
        world = SweepWorld(detached=DetachedLimits(normal_ms=60_000, low_ms=60_000))
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
