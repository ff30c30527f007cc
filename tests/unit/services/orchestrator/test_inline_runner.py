import asyncio

import pytest

from shared.policy.admission import SlotCount
from tests.fakes.clock import settle


async def test_a_started_turn_takes_a_slot_until_it_ends(orchestrator, make_turn):
    orchestrator.runner.start(make_turn(1))
    assert orchestrator.runner.count == SlotCount(2, 1)
    await settle()
    assert orchestrator.ran == [make_turn(1).turn_id]

    orchestrator.clock.skip(1.5)
    orchestrator.release.set()
    await settle()
    assert orchestrator.runner.count == SlotCount(2, 0)
    assert orchestrator.durations_ms == [1_500]


async def test_a_turn_that_raises_gives_its_slot_back_and_harms_no_other(orchestrator, make_turn):
    orchestrator.error = RuntimeError()
    orchestrator.runner.start(make_turn(1))
    orchestrator.runner.start(make_turn(2))
    orchestrator.release.set()
    await settle()
    assert orchestrator.runner.count.running == 0
    assert len(orchestrator.durations_ms) == 2


@pytest.mark.case("B-07")
async def test_drain_waits_for_turns_started_meanwhile_too(orchestrator, make_turn):
    orchestrator.runner.start(make_turn(1))
    draining = asyncio.create_task(orchestrator.runner.drain())
    await settle()
    orchestrator.runner.start(make_turn(2))
    await settle()
    assert not draining.done()
    orchestrator.release.set()
    await draining
    assert orchestrator.runner.count.running == 0


@pytest.mark.case("B-07")
async def test_close_cancels_what_still_runs_and_waits_for_it(orchestrator, make_turn):
    orchestrator.runner.start(make_turn(1))
    await settle()
    await orchestrator.runner.close()
    assert orchestrator.cut == [make_turn(1).turn_id]
    assert orchestrator.runner.count.running == 0


async def test_close_of_an_empty_runner_returns_at_once(orchestrator):
    await orchestrator.runner.close()
    await orchestrator.runner.drain()
