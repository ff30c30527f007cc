"""The sweeper's ends, also where the store or the dead-letter queue takes nothing."""

from __future__ import annotations

import pytest

from shared.contracts.server_frames import ResponseFailed
from tests.fakes.model import Forever
from tests.fakes.sweep_world import SweepWorld, crashed_once, seconds
from tests.fakes.turn_world import only

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
