import asyncio

import pytest

from tests.fakes.clock import settle


def fill(runner, queue, make_turn, numbers):
    for number in numbers:
        runner.put(queue, make_turn(number))


async def test_never_more_turns_than_slots_run_and_every_one_gets_its_turn(runner, make_turn):
    fill(runner, "deferred", make_turn, range(1, 11))
    runner.start()
    await runner.clock.advance(5)
    assert len(runner.running) == 3, "the fourth slot listens to the other queue"

    for number in range(1, 11):
        runner.end(f"s{number}")
        await runner.clock.advance(2)

    assert runner.begun == [f"s{number}" for number in range(1, 11)]
    assert runner.most <= 4
    assert runner.inbox.bodies("deferred") == []


async def test_a_message_on_an_idle_queue_starts_at_once(runner, make_turn):
    runner.start()
    await runner.clock.advance(7)
    runner.put("background", make_turn(1))
    await runner.clock.advance(0.2)
    assert runner.running == ["s1"]


async def test_the_background_queue_is_paused_under_load(runner, make_turn):
    await runner.enter_moderate()
    fill(runner, "background", make_turn, range(1, 5))
    runner.start()
    await runner.clock.advance(4)
    assert runner.begun == ["s1"]
    await runner.clock.advance(2)
    assert runner.begun == ["s1", "s2"]


async def test_nothing_is_received_while_the_ledger_cannot_be_asked(runner, make_turn):
    runner.board.available = False
    await runner.watch.refresh()
    fill(runner, "deferred", make_turn, [1])
    runner.start()
    await runner.clock.advance(10)
    assert runner.inbox.asked == []

    runner.board.available = True
    await runner.watch.refresh()
    await runner.clock.advance(1)
    assert runner.running == ["s1"]


@pytest.mark.case("B-07")
async def test_drain_receives_no_more_and_waits_for_running_turns(runner, make_turn):
    fill(runner, "deferred", make_turn, [1, 2])
    runner.start()
    await runner.clock.advance(2)
    runner.slots.close()
    draining = asyncio.create_task(runner.slots.drain())
    runner.end("s1")
    fill(runner, "deferred", make_turn, [3])
    await runner.clock.advance(25)
    assert not draining.done()

    runner.end("s2")
    await settle()

    await draining
    assert runner.begun == ["s1", "s2"]
    assert len(runner.inbox.visible("deferred")) == 1


async def test_what_an_open_receive_brings_during_a_drain_is_given_back(runner, make_turn):
    runner.start()
    await runner.clock.advance(2)
    runner.slots.close()
    draining = asyncio.create_task(runner.slots.drain())
    await runner.clock.advance(1)
    assert not draining.done(), "the queues are still listened to"
    fill(runner, "deferred", make_turn, [1])
    await runner.clock.advance(20)

    await draining
    assert runner.begun == []
    assert len(runner.inbox.visible("deferred")) == 1


@pytest.mark.case("B-07")
async def test_turns_that_outlive_the_drain_are_handed_over(runner, make_turn):
    fill(runner, "deferred", make_turn, [1, 2])
    runner.start()
    await runner.clock.advance(2)
    runner.slots.close()

    await runner.slots.cut()

    sent = [
        (queue, request.session_id, request.attempt_hint) for queue, request, _ in runner.queue.sent
    ]
    assert sorted(sent) == [("retry", "s1", 3), ("retry", "s2", 3)]
    assert runner.inbox.bodies("deferred") == []
