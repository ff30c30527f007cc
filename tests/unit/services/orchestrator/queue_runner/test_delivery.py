import asyncio

import pytest

from shared.errors import DependencyUnavailable
from shared.turn.interruption import Interruption
from shared.turn.result import TurnResult
from tests.fakes.clock import settle


async def received(runner):
    (message,) = await runner.inbox.receive("deferred", limit=1, wait_s=0, hidden_s=120)
    return message


@pytest.mark.parametrize(
    "result",
    [
        TurnResult(outcome="ended", status="completed", attempt=1),
        TurnResult(outcome="ended", status="failed", attempt=1, code="internal"),
        TurnResult(outcome="refused"),
        TurnResult(outcome="superseded", attempt=1),
    ],
)
async def test_a_message_is_deleted_when_its_turn_ended_or_is_somebody_elses(
    runner, make_turn, result
):
    runner.put("deferred", make_turn(1))
    runner.results["s1"] = result
    delivering = asyncio.create_task(runner.deliver(await received(runner)))
    await settle()
    assert len(runner.inbox.bodies("deferred")) == 1, "not before the outcome is stored"

    runner.end("s1")
    await delivering

    assert runner.inbox.bodies("deferred") == []


@pytest.mark.parametrize("result", [TurnResult(outcome="not_settled"), RuntimeError("bug")])
async def test_a_message_whose_turn_could_not_be_settled_comes_back_after_its_visibility(
    runner, make_turn, result
):
    runner.put("deferred", make_turn(1))
    runner.results["s1"] = result
    runner.end("s1")

    await runner.deliver(await received(runner))

    assert runner.inbox.visible("deferred") == []
    runner.clock.skip(120)
    assert len(runner.inbox.visible("deferred")) == 1


@pytest.mark.case("B-03")
async def test_a_message_stays_hidden_while_its_turn_runs(runner, make_turn):
    runner.put("deferred", make_turn(1))
    delivering = asyncio.create_task(runner.deliver(await received(runner)))

    for _ in range(10):
        await runner.clock.advance(40)
        assert runner.inbox.visible("deferred") == []
    assert len(runner.inbox.hidden) == 10
    runner.end("s1")
    await delivering
    await runner.clock.advance(200)

    assert len(runner.inbox.hidden) == 10, "nothing is extended after the end"


async def test_one_extension_that_fails_loses_nothing(runner, make_turn):
    runner.put("deferred", make_turn(1))
    delivering = asyncio.create_task(runner.deliver(await received(runner)))
    runner.inbox.unavailable = True
    await runner.clock.advance(40)
    runner.inbox.unavailable = False
    await runner.clock.advance(75)
    assert runner.inbox.visible("deferred") == []
    runner.end("s1")
    await delivering
    assert runner.inbox.bodies("deferred") == []


async def test_a_delivery_that_is_lost_to_another_is_no_longer_extended(runner, make_turn):
    runner.put("deferred", make_turn(1))
    first = await received(runner)
    delivering = asyncio.create_task(runner.deliver(first))
    await settle()
    await runner.inbox.hide(first, hidden_s=0)
    await received(runner)

    await runner.clock.advance(200)

    assert len(runner.inbox.hidden) == 2
    runner.end("s1")
    await delivering
    assert len(runner.inbox.bodies("deferred")) == 1, "it is the other delivery's to delete"


@pytest.mark.parametrize("body", ["{broken", '{"schema":99}', "\ud800"])
@pytest.mark.case("B-30")
async def test_a_malformed_message_is_kept_as_it_was_and_deleted(runner, body):
    runner.inbox.put("deferred", body)

    await runner.deliver(await received(runner))

    ((queue, letter),) = runner.letters.letters
    assert (queue, letter.klass, letter.turn) == ("deferred", "malformed", None)
    assert letter.raw == body.encode("utf-8", "backslashreplace").decode()
    assert runner.inbox.bodies("deferred") == []


async def test_a_malformed_message_that_cannot_be_kept_is_not_deleted(runner):
    runner.inbox.put("deferred", "{broken")
    runner.letters.failing = 1

    await runner.deliver(await received(runner))

    assert len(runner.inbox.bodies("deferred")) == 1


async def test_a_cancelled_delivery_gives_its_message_back_at_once(runner, make_turn):
    runner.put("deferred", make_turn(1))
    delivering = asyncio.create_task(runner.deliver(await received(runner)))
    await settle()

    delivering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivering

    assert runner.cut == ["s1"]
    assert len(runner.inbox.visible("deferred")) == 1


@pytest.mark.parametrize("error", [DependencyUnavailable("x")])
async def test_a_message_that_cannot_be_deleted_or_given_back_raises_nothing(
    runner, make_turn, error
):
    runner.put("deferred", make_turn(1))
    runner.end("s1")
    message = await received(runner)
    runner.inbox.error = error

    await runner.deliver(message)
    await runner.delivery.give_back(message)

    assert len(runner.inbox.bodies("deferred")) == 1


@pytest.mark.parametrize(
    ("queue", "priority", "target"),
    [
        ("deferred", "normal", "deferred"),
        ("background", "low", "background"),
        ("burst", "high", "retry"),
    ],
)
async def test_a_turn_that_gives_up_sends_its_next_attempt_and_then_deletes_its_message(
    runner, make_turn, queue, priority, target
):
    request = make_turn(1, priority=priority, detached=priority != "high")
    runner.put(queue, request)
    (message,) = await runner.inbox.receive(queue, limit=1, wait_s=0, hidden_s=120)
    give_up = Interruption()
    delivering = asyncio.create_task(runner.delivery.deliver(message, give_up))
    await settle()
    runner.queue.gate.clear()
    give_up.interrupt()
    await settle()
    assert len(runner.inbox.bodies(queue)) == 1, "not before the next attempt is sent"

    runner.queue.gate.set()
    await delivering

    ((name, following, delay_s),) = runner.queue.sent
    assert (name, following.turn_id, following.attempt_hint, delay_s) == (
        target,
        request.turn_id,
        3,
        0,
    )
    assert runner.inbox.bodies(queue) == []


async def test_a_turn_that_cannot_be_handed_over_comes_back_by_its_message(runner, make_turn):
    runner.put("deferred", make_turn(1))
    runner.queue.unavailable = True
    give_up = Interruption()
    delivering = asyncio.create_task(runner.delivery.deliver(await received(runner), give_up))
    await settle()
    give_up.interrupt()
    await delivering

    assert len(runner.inbox.visible("deferred")) == 1
