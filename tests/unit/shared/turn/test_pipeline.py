"""A turn from its request to its one end, over in-memory twins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.knowledge import PassageEntry
from shared.contracts.ledger import Append, FinishAnswer
from shared.contracts.model import ModelAlive, ModelStopped, TextDelta
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
    Usage,
)
from shared.contracts.stored_turns import StoredTurn
from shared.errors import (
    ConfigurationError,
    DependencyUnavailable,
    GuardrailBlocked,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
)
from shared.turn.interruption import Interruption
from tests.fakes.clock import settle
from tests.fakes.model import CutOff, Forever, Wait
from tests.fakes.turn_world import TurnWorld, follower, only, shown_text

ANSWERS = ("end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded")
NO_ANSWERS = ("refusal", "pause_turn", "tool_use", "brand_new_reason")


def after_put(world: TurnWorld, action: Callable[[], object]) -> None:
    """Do something at the moment when the answer has just been stored."""
    put = world.store.put

    async def put_then_act(turn: StoredTurn) -> StoredTurn | None:
        winner = await put(turn)
        action()
        await asyncio.sleep(0)
        return winner

    world.store.put = put_then_act  # type: ignore[method-assign]


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


async def test_run_reads_no_store_when_the_history_is_cached() -> None:
    world = TurnWorld(["One"], ["Two"])
    async with world.running():
        await world.answer("first")
        await world.answer("second")

    assert world.store.reads == 1
    assert [message.content for message in world.model.calls[1].prompt.messages[:2]] == [
        "first",
        "One",
    ]


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


@pytest.mark.parametrize("reason", NO_ANSWERS)
@pytest.mark.parametrize("text", ["", "Text"])
@pytest.mark.case("B-13")
async def test_any_other_reason_fails_at_once(reason: str, text: str) -> None:
    world = TurnWorld([*([text] if text else []), ModelStopped(reason, Usage())])
    async with world.running():
        await world.answer()

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.stop_reason, end.retryable, end.partial) == (
        "model_rejected",
        reason,
        False,
        bool(text),
    )
    assert len(world.model.calls) == 1
    assert not world.store.items
    assert not world.dead_letters.letters


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


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (ModelOverloaded("overloaded"), "model_overloaded", True),
        (ModelRateLimited("rate"), "model_rate_limited", True),
        (ModelDisconnected("reset"), "model_disconnected", True),
        (ModelRejected("invalid request"), "model_rejected", False),
    ],
)
@pytest.mark.case("B-01")
async def test_an_error_after_visible_text_ends_the_turn_once(
    error: Exception, code: str, retryable: bool
) -> None:
    world = TurnWorld(["Half an ans", error])
    async with world.running():
        await world.answer()

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retryable, end.partial) == (code, retryable, True)
    assert shown_text(world.frames()) == "Half an ans"
    assert len(world.model.calls) == 1
    assert not world.store.items


@pytest.mark.case("B-02")
async def test_a_transient_error_before_text_is_retried_with_one_started_frame() -> None:
    world = TurnWorld([ModelAlive(), ModelDisconnected("reset")], [CutOff()], ["Here"])
    async with world.running():
        result = await world.answer()

    assert result.status == "completed"
    only(world.frames(), ResponseStarted)
    assert shown_text(world.frames()) == "Here"
    assert len(world.model.calls) == 3


@pytest.mark.case("B-12")
async def test_white_space_alone_is_not_visible_so_the_call_may_be_repeated() -> None:
    world = TurnWorld([" \n", ModelOverloaded("busy")], ["Here"])
    async with world.running():
        await world.answer()

    assert shown_text(world.frames()) == "Here"


async def test_retries_end_with_the_last_errors_code() -> None:
    world = TurnWorld([ModelOverloaded("busy")])
    async with world.running():
        await world.answer()

    assert only(world.frames(), ResponseFailed).code == "model_overloaded"
    assert len(world.model.calls) == 3
    assert not world.dead_letters.letters


@pytest.mark.case("B-23")
async def test_a_hint_longer_than_the_turns_life_fails_at_once_with_the_hint() -> None:
    world = TurnWorld([ModelRateLimited("rate", retry_after_ms=171_000)])
    async with world.running():
        await world.answer(within_s=0.5)

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retry_after_ms) == ("model_rate_limited", 171_000)


@pytest.mark.case("B-23")
async def test_a_short_hint_is_honoured() -> None:
    world = TurnWorld([ModelRateLimited("rate", retry_after_ms=2_000)], ["Here"])
    async with world.running():
        await world.answer()

    first, second = world.model.calls
    assert 2_000 <= second.started_at_ms - first.started_at_ms <= 2_250


@pytest.mark.case("B-23")
async def test_a_wait_too_long_for_the_process_is_handed_to_the_consumer() -> None:
    world = TurnWorld(
        [ModelRateLimited("rate", retry_after_ms=10_000)], retry_in_process_limit_ms=4_000
    )
    async with world.running():
        result = await world.answer(path="burst", within_s=0.5)
        calls = len(world.ledger.calls)
        await world.clock.advance(5)

    assert (result.outcome, result.acknowledge, result.attempt) == ("retry_later", False, 1)
    assert 10_000 <= result.delay_ms <= 11_000
    assert len(world.ledger.calls) == calls  # nobody renews the claim any more


@pytest.mark.case("B-24")
async def test_pings_alone_keep_a_call_alive_until_the_generation_limit() -> None:
    pings = [step for _ in range(4) for step in (Wait(10), ModelAlive())]
    world = TurnWorld([ModelAlive(), *pings, "Text at last"])
    async with world.running():
        result = await world.answer(within_s=50)

    assert result.status == "completed"


@pytest.mark.parametrize(
    ("script", "code", "partial", "by_s"),
    [
        ([ModelAlive(), "Text", Forever()], "model_timeout", True, 17),
        ([*[step for _ in range(9) for step in ("x", Wait(6))]], "deadline_exceeded", True, 47),
        (
            [*[step for _ in range(9) for step in (ModelAlive(), Wait(6))]],
            "deadline_exceeded",
            False,
            47,
        ),
    ],
)
@pytest.mark.case("B-24")
async def test_silence_and_endless_calls_end_in_a_stated_time(
    script: list[object], code: str, partial: bool, by_s: float
) -> None:
    world = TurnWorld(script)  # type: ignore[arg-type]
    async with world.running():
        await world.answer(within_s=by_s)

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.partial) == (code, partial)
    assert world.model.open_calls == 0


@pytest.mark.case("B-24")
async def test_a_call_without_any_event_is_retried_until_the_first_text_limit() -> None:
    world = TurnWorld([Forever()])
    async with world.running():
        await world.answer(within_s=62)

    assert only(world.frames(), ResponseFailed).code in {"model_timeout", "deadline_exceeded"}
    assert len(world.model.calls) == 3
    assert world.model.open_calls == 0


async def test_an_answer_that_stopped_counts_even_when_its_stream_does_not_end() -> None:
    world = TurnWorld([["Text", ModelStopped("end_turn", Usage())]])
    world.model.scripts[0] = [[TextDelta("Text"), ModelStopped("end_turn", Usage())], Forever()]
    async with world.running():
        result = await world.answer(within_s=3)

    assert result.status == "completed"


async def test_an_answer_that_stopped_counts_even_when_its_stream_then_breaks() -> None:
    world = TurnWorld(
        [[TextDelta("Text"), ModelStopped("end_turn", Usage())], ModelDisconnected("late")]
    )
    async with world.running():
        result = await world.answer(within_s=3)

    assert result.status == "completed"


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


async def test_a_second_delivery_is_refused_while_the_first_runs_and_after_its_end() -> None:
    world = TurnWorld(["Half", Wait(1), "Rest"])
    async with world.running():
        request = await world.accept("Hi")
        first = world.begin(request)
        await settle()
        assert (await world.finish(world.begin(request))).outcome == "refused"
        await world.finish(first)
        assert (await world.finish(world.begin(request))).outcome == "refused"

    assert len(world.model.calls) == 1


async def test_a_stale_turn_expires_in_words_and_frees_its_session() -> None:
    world = TurnWorld(["Two"])
    async with world.running():
        old = await world.accept("old")
        await world.accept("next")
        await world.clock.advance(46)
        result = await world.finish(world.begin(old))
        await settle()

    assert (result.outcome, result.status) == ("ended", "expired")
    end = only(world.frames(), ResponseExpired)
    assert (end.attempt, end.seq, end.age_ms) == (0, 0, 46_000)
    assert [head.text for head in world.dispatcher.dispatched] == ["next"]
    assert not world.model.calls


async def test_a_stale_message_of_a_turn_that_was_claimed_is_taken_over() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.ledger.claim(
            request,
            nonce=ClaimNonce("dead"),
            worker="dead",
            path="inline",
            grace_ms=15_000,
            now_ms=world.clock.now_ms(),
        )
        await world.clock.advance(46)
        result = await world.finish(world.begin(request))

    assert (result.status, result.attempt) == ("completed", 2)


async def test_a_stale_message_of_an_ended_or_unknown_turn_is_refused() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.finish(world.begin(request))
        await world.clock.advance(46)
        assert (await world.finish(world.begin(request))).outcome == "refused"
        world.ledger.forget(request.ref)
        assert (await world.finish(world.begin(request))).outcome == "refused"


async def test_a_turn_whose_readers_left_before_the_claim_ends_without_a_model_call() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        await world.clock.advance(16)
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.status, result.attempt) == ("ended", "cancelled", 0)
    assert not world.model.calls


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_takeover_that_nobody_reads_ends_unless_its_answer_is_stored(
    is_answered: bool,
) -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        task.cancel()
        await settle()
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        if is_answered:
            source = TurnWorld(["Whole"])
            async with source.running():
                await source.answer("Hi")
            (item,) = source.store.items.values()
            world.store.items[request.ref] = msgspec.structs.replace(item, ref=request.ref)
        await world.clock.advance(20)
        result = await world.finish(world.begin(request))

    if is_answered:
        assert result.outcome == "refused"
    else:
        assert (result.outcome, result.status, result.attempt) == ("ended", "cancelled", 1)
        end = world.log(request)[-1]
        assert isinstance(end, ResponseCancelled)
        assert (end.attempt, end.seq) == (1, 2)


async def test_a_takeover_delivers_the_answer_that_is_already_stored() -> None:
    world = TurnWorld(["Before"], ["Whole"])
    async with world.running():
        await world.answer("so that a window is cached")
        request = await world.accept("Hi")
        after_put(world, lambda: task.cancel())  # stored, not yet finished
        task = world.begin(request)
        await settle()
        await world.clock.advance(4)
        result = await world.finish(world.begin(request, "burst"))

    assert (result.status, result.attempt) == ("completed", 2)
    frames = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 2]
    assert only(frames, ResponseStarted).path == "stored"
    assert shown_text(frames) == "Whole"
    assert len(world.model.calls) == 2
    assert world.store.puts == 3


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


@pytest.mark.parametrize(
    ("error", "code", "klass"),
    [
        (ModelRejected("invalid request"), "model_rejected", "failed"),
        (ConfigurationError("the provider refused our key"), "internal", "failed"),
    ],
)
async def test_a_permanent_error_is_dead_lettered_at_the_first_failure(
    error: Exception, code: str, klass: str
) -> None:
    world = TurnWorld([error])
    async with world.running():
        await world.answer("Hi", path="queue", priority="normal", detached=True)

    ((queue, letter),) = world.dead_letters.letters
    assert (queue, letter.klass) == ("deferred", klass)
    assert len(world.model.calls) == 1


async def test_a_blocked_reply_is_counted_and_takes_back_what_was_shown() -> None:
    world = TurnWorld(["Something ba", GuardrailBlocked("output")])
    async with world.running():
        await world.answer("Hi")

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retract, end.retryable) == ("blocked", True, False)
    assert not world.dead_letters.letters


async def test_a_blank_message_is_a_malformed_turn() -> None:
    world = TurnWorld()
    async with world.running():
        await world.answer("   ")

    ((_, letter),) = world.dead_letters.letters
    assert letter.klass == "malformed"
    assert [type(frame) for frame in world.frames()] == [ResponseStarted, ResponseFailed]
    assert not world.model.calls


async def test_the_end_comes_even_when_no_dead_letter_can_be_sent() -> None:
    world = TurnWorld([KeyError()])
    world.dead_letters.failing = 99
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "failed"


async def test_a_dead_letter_is_sent_again_before_the_turn_ends() -> None:
    world = TurnWorld([KeyError()])
    world.dead_letters.failing = 2
    async with world.running():
        task = world.begin(await world.accept("Hi"))
        await settle()
        assert not world.dead_letters.letters
        assert not any(isinstance(frame, ResponseFailed) for frame in world.frames())
        await world.finish(task)

    assert len(world.dead_letters.letters) == 1
    only(world.frames(), ResponseFailed)


@pytest.mark.case("B-38")
async def test_an_answer_that_cannot_be_stored_is_reported_and_kept_as_evidence() -> None:
    world = TurnWorld(["Shown"], settle_patience_ms=3_000)
    async with world.running():
        world.store.failing_puts = 99
        await world.answer("Hi")

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.partial, end.retryable) == ("internal", True, True)
    ((_, letter),) = world.dead_letters.letters
    assert (letter.klass, letter.answer) == ("not_stored", "Shown")


@pytest.mark.case("B-38")
async def test_a_store_that_comes_back_keeps_the_answer() -> None:
    world = TurnWorld(["Shown"])
    async with world.running():
        request = await world.accept("Hi")
        world.store.failing_puts = 3
        result = await world.finish(world.begin(request))

    assert result.status == "completed"
    assert not world.dead_letters.letters


@pytest.mark.case("B-20")
async def test_an_answer_above_the_item_limit_is_not_stored_and_said_so() -> None:
    world = TurnWorld(["x" * 400_001])
    async with world.running():
        await world.answer("Hi")

    assert world.dead_letters.letters[0][1].klass == "not_stored"


async def test_a_stopped_answer_that_cannot_be_stored_is_evidence_too() -> None:
    world = TurnWorld(["Half", Forever()], settle_patience_ms=1_000)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.store.unavailable = True
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        await world.finish(task)

    assert only(world.frames(), ResponseCancelled).length == 4
    assert world.dead_letters.letters[0][1].klass == "not_stored"


@pytest.mark.case("B-21")
async def test_a_put_whose_answer_got_lost_is_our_own() -> None:
    world = TurnWorld(["Shown"])
    world.store.lost_answers = 1
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "completed"
    assert world.store.puts == 2


async def test_an_answer_stored_by_a_newer_attempt_leaves_the_end_to_it() -> None:
    world = TurnWorld(["Mine", Wait(1), " too"], ["Theirs"])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await settle()
        source = TurnWorld(["Theirs"])
        async with source.running():
            await source.answer("Hi")
        (item,) = source.store.items.values()
        world.store.items[request.ref] = msgspec.structs.replace(
            item, ref=request.ref, attempt=2, nonce="theirs"
        )
        result = await world.finish(task)
        assert (result.outcome, result.acknowledge) == ("superseded", True)
        await world.clock.advance(4)
        takeover = await world.finish(world.begin(request))

    assert takeover.status == "completed"
    frames = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 2]
    assert shown_text(frames) == "Theirs"


@pytest.mark.case("B-22")
async def test_the_next_turn_sees_the_answer_before_it_on_another_worker() -> None:
    world = TurnWorld(["One"], ["Two"])
    other = world.make_engine("worker-2", seed=2)
    async with world.running(), world.running(other):
        await world.answer("first")
        request = await world.accept("second")
        world.ledger._session(request.session).history = None  # nothing cached
        await world.finish(world.begin(request, "burst", other))

    contents = [message.content for message in world.model.calls[1].prompt.messages]
    assert contents[:2] == ["first", "One"]


async def test_an_unreadable_cached_history_is_read_from_the_store() -> None:
    world = TurnWorld(["One"], ["Two"])
    async with world.running():
        await world.answer("first")
        request = await world.accept("second")
        world.ledger._session(request.session).history = b"\xff\xffnot ours"
        await world.finish(world.begin(request))

    assert world.model.calls[1].prompt.messages[0].content == "first"


async def test_sources_are_in_prompt_and_end_and_their_failure_costs_no_answer() -> None:
    entry = PassageEntry(id="p1", source_id="d1", title="Sea Song", text="whales", kind="series")
    world = TurnWorld(["One"], ["Two"], ["Three"])
    world.retriever.entries = (entry,)
    async with world.running():
        await world.answer("recommend whales")
        assert only(world.frames(), ResponseStarted).intent == "recommendation"
        assert [s.id for s in only(world.frames(), ResponseCompleted).sources] == ["d1"]
        world.retriever.is_down = world.classifier.is_down = True
        result = await world.answer("recommend more")

    assert result.status == "completed"
    blocks = world.model.calls[0].prompt.messages[-1].content
    assert [block["text"] for block in blocks][-1] == "recommend whales"  # type: ignore[index]
    assert "whales</passage>" in blocks[0]["text"]  # type: ignore[index,call-overload]


async def test_small_talk_asks_no_source() -> None:
    world = TurnWorld()
    world.classifier.labels_by_word["hello"] = "chit_chat"
    async with world.running():
        await world.answer("hello")

    assert not world.retriever.searches


async def test_a_slow_source_is_left_out_in_time() -> None:
    world = TurnWorld(["One"])

    async def search(text: str, limit: int) -> tuple[()]:
        await world.clock.sleep(60)
        return ()

    world.retriever.search = search  # type: ignore[method-assign,assignment]
    async with world.running():
        result = await world.answer(within_s=1)

    assert result.status == "completed"


async def test_run_claims_again_while_the_ledger_is_away_then_leaves_the_message() -> None:
    world = TurnWorld(["One"])
    async with world.running():
        request = await world.accept("Hi")
        world.ledger.unavailable = True
        result = await world.finish(world.begin(request))
        assert (result.outcome, result.acknowledge) == ("not_settled", False)

        task = world.begin(request)
        await world.clock.advance(1)
        world.ledger.unavailable = False
        assert (await world.finish(task)).status == "completed"


async def test_redis_away_in_mid_answer_pushes_nothing_and_loses_nothing() -> None:
    script = [step for index in range(50) for step in (Wait(0.1), f"w{index} ")]
    world = TurnWorld(script)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        world.ledger.unavailable = True
        before = len(world.frames())
        await world.clock.advance(2.5)
        assert len(world.frames()) == before
        world.ledger.unavailable = False
        result = await world.finish(task)

    assert result.status == "completed"
    assert shown_text(world.frames()) == "".join(f"w{index} " for index in range(50))
    assert world.frames() == world.log(request)


@pytest.mark.parametrize("at_s", [0.45, 4.95])
async def test_a_turn_that_redis_lost_is_claimed_anew_and_said_again(at_s: float) -> None:
    script = [step for index in range(50) for step in (Wait(0.1), f"w{index} ")]
    world = TurnWorld(script)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(at_s)
        world.ledger.forget(request.ref)
        await world.ledger.follow(
            request.ref, follower(), attempt=1, after_seq=-1, now_ms=world.clock.now_ms()
        )
        result = await world.finish(task)

    assert (result.status, result.attempt) == ("completed", 2)
    log = world.log(request)
    assert {getattr(frame, "attempt", 0) for frame in log} == {2}
    assert [frame.seq for frame in log] == list(range(len(log)))  # type: ignore[union-attr]
    assert shown_text(log) == "".join(f"w{index} " for index in range(50))


@pytest.mark.case("B-21")
async def test_a_finish_whose_answer_got_lost_counts_as_ours() -> None:
    world = TurnWorld(["One"])
    real = world.ledger.finish
    tries: list[object] = []

    async def finish(append: Append, **rest: Any) -> FinishAnswer:
        tries.append(await real(append, **rest))
        if len(tries) == 1:
            raise DependencyUnavailable("the answer got lost")
        return await real(append, **rest)

    world.ledger.finish = finish  # type: ignore[method-assign]
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "completed"
    assert only(world.frames(), ResponseCompleted).length == 3


@pytest.mark.case("B-16")
async def test_an_end_that_the_ledger_never_takes_is_left_to_the_sweeper() -> None:
    world = TurnWorld(["One"], settle_patience_ms=2_000)
    async with world.running():
        request = await world.accept("Hi")
        after_put(world, lambda: setattr(world.ledger, "unavailable", True))
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.status, result.acknowledge) == ("not_settled", None, False)


@pytest.mark.case("B-27")
async def test_the_finisher_dispatches_the_next_head() -> None:
    world = TurnWorld(["One", Wait(1), "."])
    async with world.running():
        task = world.begin(await world.accept("first"))
        await world.accept("second")
        await world.finish(task)

    (head,) = world.dispatcher.dispatched
    assert (head.text, head.ready_at_ms > 0) == ("second", True)


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
    assert not world.dead_letters.letters


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
