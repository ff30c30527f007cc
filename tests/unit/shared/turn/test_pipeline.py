"""A turn from its request to its one end, over in-memory twins."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from shared.contracts.model import ModelAlive, ModelStopped, TextDelta
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponseStarted,
    Usage,
)
from shared.errors import (
    GuardrailBlocked,
    ModelRejected,
)
from shared.turn.interruption import Interruption
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_world import TurnWorld, follower, only, shown_text

ANSWERS = ("end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded")


async def test_run_answers_stores_and_ends_a_turn() -> None:
    world = TurnWorld([ModelAlive(), "Hel", "lo"])
    async with world.running():
        result = await world.answer("Hi")

    assert (result.outcome, result.status, result.acknowledge) == ("ended", "completed", True)
    frames = world.frames()
    assert isinstance(frames[0], ResponseStarted)
    assert shown_text(frames) == "Hello"
    end = only(frames, ResponseCompleted)
    assert (end.stop_reason, end.length, end.attempt) == ("end_turn", 5, 1)
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    (item,) = world.store.items.values()
    assert (item.user_text, item.assistant_text, item.status) == ("Hi", "Hello", "completed")
    assert world.model.open_calls == 0


@pytest.mark.case("B-38")
async def test_run_asks_the_ledger_at_most_four_times_after_the_accept() -> None:
    world = TurnWorld([Wait(0.3), [TextDelta("token ")] * 100, Wait(0.03)])
    async with world.running():
        await world.answer("Hi")

    assert world.ledger.calls == ["claim", "append_many", "append_many", "finish"]
    assert (world.store.puts, world.store.reads) == (1, 1)


@pytest.mark.case("B-09")
async def test_a_hundred_tokens_at_once_take_at_most_five_frames() -> None:
    world = TurnWorld([[TextDelta("token ")] * 100])
    async with world.running():
        await world.answer("Hi")

    assert len(world.frames()) <= 5


async def test_a_hundred_tokens_at_fifty_a_second_take_at_most_55_frames() -> None:
    script = [step for _ in range(100) for step in (Wait(0.02), "token ")]
    world = TurnWorld(script)
    async with world.running():
        request = await world.accept("Hi")
        await world.finish(world.begin(request))

    frames = world.frames()
    assert 30 <= len(frames) <= 55
    assert frames == world.log(request)
    assert shown_text(frames) == "token " * 100


@pytest.mark.case("B-09")
async def test_a_hundred_tokens_take_at_most_15_frames_when_pushes_are_slow() -> None:
    script = [step for _ in range(100) for step in (Wait(0.02), "token ")]
    world = TurnWorld(script)
    world.push.latency_s["http://10.0.0.1:8081"] = 0.4
    async with world.running():
        await world.answer("Hi")
        await world.clock.advance(3)

    assert len(world.frames()) <= 15
    assert shown_text(world.frames()) == "token " * 100


@pytest.mark.parametrize("reason", ANSWERS)
@pytest.mark.case("B-13")
async def test_a_reason_that_ends_an_answer_reaches_reader_and_store(reason: str) -> None:
    world = TurnWorld(["Text", ModelStopped(reason, Usage())])
    async with world.running():
        await world.answer()

    assert only(world.frames(), ResponseCompleted).stop_reason == reason
    assert [item.stop_reason for item in world.store.items.values()] == [reason]


@pytest.mark.parametrize("reason", ANSWERS)
@pytest.mark.parametrize("script", [[], ["", ""], [" \n", "\t"]])
@pytest.mark.case("B-12")
async def test_a_blank_answer_fails_and_the_next_turn_is_valid(
    reason: str, script: list[str]
) -> None:
    world = TurnWorld([*script, ModelStopped(reason, Usage())], ["Fine"])
    async with world.running():
        await world.answer("first")
        failed = only(world.frames(), ResponseFailed)
        await world.answer("second")

    assert (failed.code, failed.partial) == ("model_rejected", False)
    assert shown_text(world.frames()) == "Fine"
    assert [message.role for message in world.model.calls[1].prompt.messages] == ["user"]


@pytest.mark.case("B-06")
async def test_stop_closes_the_model_within_two_seconds_and_stores_the_partial_answer() -> None:
    world = TurnWorld(["Half", Forever()], ["Next"])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(3)
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        stopped_at_ms = world.clock.now_ms()
        await world.finish(task, within_s=2)

        (call,) = world.model.calls
        assert call.ended == "closed"
        assert call.ended_at_ms - stopped_at_ms <= 2_000
        end = only(world.frames(), ResponseCancelled)
        assert (end.by, end.length) == ("user", 4)
        (item,) = world.store.items.values()
        assert (item.status, item.stop_reason, item.assistant_text) == (
            "cancelled",
            "cancelled",
            "Half",
        )
        await world.answer("And now?")

    assert [m.content for m in world.model.calls[1].prompt.messages[:2]] == ["Hi", "Half"]


async def test_stop_before_any_text_stores_nothing() -> None:
    world = TurnWorld([Forever()])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1.5)
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        await world.finish(task, within_s=2)

    assert only(world.frames(), ResponseCancelled).length == 0
    assert not world.store.items


@pytest.mark.case("B-05")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param([Forever()], id="before the first token"),
        pytest.param([step for _ in range(99) for step in ("more ", Wait(0.2))], id="mid-stream"),
        pytest.param(["Half", Forever()], id="during a pause"),
    ],
)
async def test_readers_gone_past_the_grace_close_the_model_call(script: list[Any]) -> None:
    world = TurnWorld(script, silence_timeout_ms=60_000)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        world.push.gone.add("c1")
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        left_at_ms = world.clock.now_ms()
        await world.clock.advance(14)
        assert world.model.open_calls == 1
        await world.finish(task, within_s=3)

    assert world.model.calls[0].ended_at_ms - left_at_ms <= 17_000
    end = world.log(request)[-1]
    assert isinstance(end, ResponseCancelled)
    assert end.by == "disconnect"


async def test_a_detached_turn_needs_no_reader() -> None:
    world = TurnWorld([*[step for _ in range(4) for step in (Wait(8), "x")]])
    async with world.running():
        result = await world.answer(detached=True, within_s=40)

    assert result.status == "completed"


@pytest.mark.case("B-06")
async def test_a_hundred_stops_in_a_row_leave_no_open_call() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        for _ in range(100):
            request = await world.accept("Hi")
            task = world.begin(request)
            await settle()
            task.cancel()
            await settle(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            world.ledger.forget(request.ref)
        assert world.model.open_calls == 0
        world.model.scripts.append(["Fine"])
        world.model.scripts[0:1] = [["Fine"]]
        assert (await world.answer("And now?")).status == "completed"


async def test_a_cancelled_run_stops_renewing_and_another_worker_takes_over() -> None:
    world = TurnWorld(["Half", Forever()], ["Whole"])
    other = world.make_engine("worker-2", seed=2)
    async with world.running(), world.running(other):
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        task.cancel()
        await settle()
        await world.clock.advance(3.1)
        result = await world.finish(world.begin(request, "burst", other))

    assert (result.status, result.attempt) == ("completed", 2)
    assert [f.delta for f in world.frames() if isinstance(f, ResponseDelta) and f.attempt == 2] == [
        "Whole"
    ]


async def test_a_turn_that_its_consumer_gives_up_is_reserved_for_the_attempt_that_it_sends() -> (
    None
):
    world = TurnWorld(["Half an ", Forever()])
    give_up = Interruption()
    async with world.running():
        request = await world.accept("Hi")
        task = asyncio.create_task(world.engine.pipeline.run(request, "burst", give_up=give_up))
        await world.clock.advance(0.2)
        give_up.interrupt()
        result = await world.finish(task, within_s=1)

    assert (result.outcome, result.attempt, result.delay_ms) == ("retry_later", 1, 0)
    assert world.model.open_calls == 0
    recovery = world.ledger._session(request.session).turns[request.turn_id].recovery
    assert (recovery.released, recovery.dispatches) == ("passed_on", 1)
    assert recovery.reserved_until_ms > world.clock.now_ms()
    assert world.ledger.due_at_ms[request.ref] == recovery.reserved_until_ms


async def test_a_turn_given_up_before_its_claim_is_sent_as_it_came() -> None:
    world = TurnWorld(["Answer"])
    give_up = Interruption()
    async with world.running():
        request = await world.accept("Hi")
        world.ledger.unavailable = True
        task = asyncio.create_task(world.engine.pipeline.run(request, "burst", give_up=give_up))
        await world.clock.advance(0.2)
        give_up.interrupt()
        result = await world.finish(task, within_s=1)

    assert (result.outcome, result.attempt) == ("retry_later", 0)
    assert world.model.calls == []


async def test_a_turn_given_up_after_its_end_has_ended() -> None:
    world = TurnWorld(["Answer"])
    give_up = Interruption()
    async with world.running():
        request = await world.accept("Hi")
        task = asyncio.create_task(world.engine.pipeline.run(request, "burst", give_up=give_up))
        result = await world.finish(task)
        give_up.interrupt()

    assert (result.outcome, result.status) == ("ended", "completed")


async def test_a_fenced_producer_stops_and_writes_nothing_more() -> None:
    world = TurnWorld(["Half", Forever()], ["Whole"])
    other = world.make_engine("worker-2", seed=2)
    async with world.running():
        request = await world.accept("Hi")
        first = world.begin(request)
        await world.clock.advance(0.5)
        held = world.ledger._session(request.session).turns[request.turn_id]
        held.lease_until_ms = 0
        async with world.running(other):
            second = await world.finish(world.begin(request, "burst", other))
            result = await world.finish(first)

    assert second.status == "completed"
    assert (result.outcome, result.acknowledge) == ("superseded", True)
    old, new = world.model.calls
    assert old.ended == "closed"
    assert old.ended_at_ms - new.started_at_ms <= 2_000
    assert world.ledger.calls.count("finish") == 1
    assert not world.dead_letters.letters
    assert [item.assistant_text for item in world.store.items.values()] == ["Whole"]


async def test_a_takeover_of_a_turn_whose_user_pressed_stop_ends_cancelled_and_marked() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(0.5)
        task.cancel()
        await settle()
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        await world.clock.advance(4)
        result = await world.finish(world.begin(request))

    assert (result.status, result.attempt) == ("cancelled", 2)
    assert len(world.model.calls) == 1
    (item,) = world.store.items.values()
    assert (item.status, item.stop_reason, item.attempt) == ("marker", "cancelled", 2)
    assert isinstance(world.log(request)[0], ResponseStarted)


async def test_a_bug_ends_the_turn_in_words_and_as_evidence() -> None:
    world = TurnWorld([KeyError("secret words")])
    async with world.running():
        result = await world.answer("Hi")

    assert (result.status, result.code) == ("failed", "internal")
    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retryable, end.partial) == ("internal", False, False)
    ((queue, letter),) = world.dead_letters.letters
    assert (queue, letter.klass, letter.error.type) == ("burst", "failed", "KeyError")
    assert letter.turn is not None
    assert letter.attempts[0].worker == "worker-1"


async def test_a_blocked_reply_is_counted_and_takes_back_what_was_shown() -> None:
    world = TurnWorld(["Something ba", GuardrailBlocked("output")])
    async with world.running():
        await world.answer("Hi")

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retract, end.retryable) == ("blocked", True, False)
    assert not world.dead_letters.letters


@pytest.mark.case("B-10")
async def test_a_frame_that_a_transport_refuses_for_size_ends_the_turn() -> None:
    world = TurnWorld(["One", Forever()])
    world.push.too_large.add("c1")
    async with world.running():
        request = await world.accept("Hi")
        await world.finish(world.begin(request), within_s=2)

    end = world.log(request)[-1]
    assert isinstance(end, ResponseFailed)
    assert (end.code, end.retryable) == ("internal", False)
    ((_, letter),) = world.dead_letters.letters
    assert (letter.klass, letter.error.type) == ("failed", "FrameTooLarge")


@pytest.mark.case("B-10")
async def test_forty_thousand_emoji_in_one_delta_arrive_whole_in_small_frames() -> None:
    world = TurnWorld(["🦊" * 40_000])
    async with world.running():
        await world.answer("Hi")

    assert max(map(len, world.push.received["c1"])) <= 32_768
    assert shown_text(world.frames()) == "🦊" * 40_000


async def test_ends_are_counted_by_status_path_and_code() -> None:
    world = TurnWorld([ModelRejected("invalid request")])
    async with world.running():
        await world.answer("Hi", path="burst")

    lines = [msgspec.json.decode(line) for line in world.metrics.getvalue().splitlines()]
    ended = [line for line in lines if "TurnEnded" in line]
    assert [(line["Status"], line["Path"], line["Code"]) for line in ended] == [
        ("failed", "burst", "model_rejected")
    ]
    assert any("TurnMs" in line for line in lines)
    assert any("QueuedMs" in line for line in lines)


async def test_a_crash_of_the_pipeline_itself_is_survived() -> None:
    world = TurnWorld()

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    world.ledger.claim = broken  # type: ignore[method-assign,assignment]
    async with world.running():
        result = await world.answer("Hi")

    assert result.outcome == "not_settled"
