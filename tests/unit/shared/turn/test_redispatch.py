"""Dispatching an unclaimed turn again: a reservation first, then one message or one offer."""

from __future__ import annotations

import asyncio

from shared.turn.interruption import Interruption
from tests.fakes.model import Forever
from tests.fakes.sweep_world import SweepWorld, seconds


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
