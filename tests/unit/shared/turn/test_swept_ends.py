"""The sweeper's ends, also where the store or the dead-letter queue takes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.contracts.server_frames import (
    ResponseCompleted,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
)
from shared.contracts.turns import TurnRequest
from shared.errors import DependencyUnavailable
from tests.fakes.model import Forever
from tests.fakes.sweep_world import Process, SweepWorld, crashed_once, ends, seconds, state_of
from tests.fakes.turn_world import follower, only, shown_text

HALF = ["Half", Forever()]


@pytest.mark.parametrize("fault", ["unavailable", "refusing"])
async def test_while_the_store_takes_no_marker_the_end_is_put_off_then_comes_all_the_same(
    fault: str,
) -> None:
    """Another process's sweeper may be allowed to write, so a refusal is put off like an outage, no longer."""
    world = SweepWorld(HALF)
    async with world.sweeping():
        request, _ = await crashed_once(world)
        setattr(world.store, fault, True)
        await seconds(world, 80)
        state = await world.ledger.state(request.ref)
        assert state is not None
        assert state.status == "running"
        await seconds(world, 20)

    assert only(world.frames(), ResponseFailed).code == "attempts_exhausted"
    [event] = world.events.noted
    assert (event.status, event.code, event.ended_by) == (
        "failed",
        "attempts_exhausted",
        "sweeper",
    )
    assert event.attempt >= 1
    assert event.accepted_at_ms == request.accepted_at_ms


async def test_a_dead_letter_queue_that_refuses_does_not_keep_a_poison_turn_from_ending() -> None:
    world = SweepWorld(HALF, HALF)
    world.dead_letters.refusing = True
    async with world.sweeping():
        _, _ = await crashed_once(world)
        second = world.queue.process = world.start("worker-2")
        await seconds(world, 6)
        second.die()
        await seconds(world, 6)

    assert only(world.frames(), ResponseFailed).code == "attempts_exhausted"
    assert world.dead_letters.sends == 1


async def test_a_turn_that_cannot_be_read_ends_as_evidence_and_holds_up_nobody() -> None:
    world = SweepWorld(HALF)
    async with world.sweeping():
        request = await world.accept("Hi")
        behind = await world.accept("And then?", reader=follower("c2"))
        world.ledger.damage(request.ref, b"{secret \xff")
        await seconds(world, 44)
        assert not ends(world)
        await seconds(world, 3)

    (end,) = ends(world)
    assert (end.code, end.attempt, end.seq, end.retryable) == ("internal", 0, 0, False)
    ((queue, letter),) = world.dead_letters.letters
    assert (queue, letter.klass, letter.turn) == ("burst", "malformed", None)
    assert letter.error.message == f"what the ledger holds of {request.turn_id}"
    assert (letter.error.type, letter.raw) == ("TurnUnreadable", "{secret \\xff")
    assert [turn.turn_id for turn in world.dispatcher.dispatched] == [behind.turn_id]


WHOLE = ["Whole answer"]


async def store_answer(world: SweepWorld, request: TurnRequest) -> None:
    """The dead worker had stored its answer."""
    source = SweepWorld(["Stored"])
    async with source.running():
        await source.answer("Hi")
    (item,) = source.store.items.values()
    world.store.items[request.ref] = msgspec.structs.replace(item, ref=request.ref, nonce="x")


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


class TestNeverClaimed:
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

    @pytest.mark.case("B-27")
    async def test_the_end_of_a_head_dispatches_the_next(self) -> None:
        world = SweepWorld(stale_after_ms=3_000)
        async with world.sweeping():
            first, second = await world.accept("One"), await world.accept("Two")
            await world.ledger.mark_placed(first.ref, "burst", world.clock.now_ms())
            await seconds(world, 6)

        assert world.dispatcher.dispatched[0].turn_id == second.turn_id
