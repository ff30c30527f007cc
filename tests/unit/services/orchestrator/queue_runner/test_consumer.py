import asyncio

import pytest

from services.lifecycle import StopSignals, run_parts
from shared.errors import DependencyUnavailable
from tests.fakes.clock import settle


async def test_an_inbox_that_cannot_be_asked_is_asked_again_less_and_less_often(runner, make_turn):
    runner.inbox.unavailable = True
    (consumer, *_) = runner.consumers
    running = asyncio.create_task(consumer.run())
    await runner.clock.advance(0.1)
    assert consumer.failed_since_s == 0.0
    await runner.clock.advance(60)
    assert not running.done()

    runner.inbox.unavailable = False
    runner.put("deferred", make_turn(1))
    await runner.clock.advance(10)

    assert runner.running == ["s1"]
    assert consumer.failed_since_s is None
    running.cancel()
    await settle()


async def test_it_ends_when_the_slots_are_closed(runner):
    runner.slots.close()
    await runner.consumers[0].run()


@pytest.mark.case("B-07")
async def test_one_consumers_crash_stops_its_siblings_in_order(runner, make_turn):
    runner.put("deferred", make_turn(1))

    async def drain() -> None:
        runner.slots.close()
        await runner.slots.drain()

    process = asyncio.create_task(
        run_parts(
            [runner.slots, *runner.consumers],
            drain=drain,
            drain_limit_s=60,
            signals=StopSignals(),
        )
    )
    await runner.clock.advance(2)
    assert runner.running == ["s1"]
    runner.inbox.error = RuntimeError("bug")
    await runner.clock.advance(21)
    assert not process.done(), "the running turn is waited for"
    runner.put("deferred", make_turn(2))
    runner.inbox.error = None
    runner.end("s1")
    await runner.clock.advance(1)

    with pytest.raises(RuntimeError, match="bug"):
        await process
    assert runner.begun == ["s1"]
    assert len(runner.inbox.visible("deferred")) == 1


async def test_a_receive_that_fails_gives_its_slots_back(runner, make_turn):
    runner.start()
    runner.inbox.error = DependencyUnavailable("away")
    await runner.clock.advance(30)
    runner.inbox.error = None
    for number in range(1, 9):
        runner.put("deferred", make_turn(number))
    await runner.clock.advance(15)
    assert len(runner.running) == 3
