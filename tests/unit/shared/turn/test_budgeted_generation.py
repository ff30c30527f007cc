"""Model calls under the budget: when a turn waits, for how long, and what its call is charged with."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging

import pytest

from shared.contracts.identifiers import SessionId, new_turn_id
from shared.contracts.model import ModelStopped, TextDelta
from shared.contracts.model_budget import BudgetExchange, BudgetLine
from shared.contracts.server_frames import ResponseCompleted, ResponseFailed, Usage
from shared.errors import ModelOverloaded, ModelRejected, ModelTimeout
from shared.turn.result import TurnResult
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_world import TurnWorld, follower, only

FUNCTION = {"retry_in_process_limit_ms": 4_000}


async def spend(world: TurnWorld, requests: int, tokens: int = 1) -> None:
    """Another process takes that much of the budget now."""
    await world.window.exchange(
        BudgetExchange(
            worker="other",
            now_ms=world.clock.now_ms(),
            requests_per_min=0,
            tokens_per_min=0,
            interactive=BudgetLine(tokens=(tokens,) * requests),
        )
    )


async def see_out(world: TurnWorld, task: asyncio.Task[TurnResult], within_s: int) -> TurnResult:
    """As TurnWorld.finish, in longer steps."""
    for _ in range(within_s * 2):
        if task.done():
            break
        await world.clock.advance(0.5)
    return await world.finish(task, within_s=0.1)


def charged_tokens(world: TurnWorld) -> int:
    return sum(charge.tokens for charge in world.window._cells.values())


async def test_a_turn_waits_for_the_budget_before_it_asks_the_model() -> None:
    world = TurnWorld(["Hello"])
    world.limit(requests=5)
    await spend(world, 5)
    async with world.running():
        await world.clock.advance(20)
        task = world.begin(await world.accept())
        await world.clock.advance(39)
        assert world.model.calls == []
        result = await see_out(world, task, 10)

    assert (result.status, result.attempt) == ("completed", 1)
    assert only(world.frames(), ResponseCompleted).timings.first_token_ms >= 39_000
    assert '"ModelBudgetWaitMs":4' in world.metrics.getvalue()


async def test_the_wait_is_no_part_of_the_generation_limit() -> None:
    world = TurnWorld([Wait(19), "Hello", Wait(14), " there", Wait(10)], stale_after_ms=59_000)
    world.limit(requests=5)
    await spend(world, 5)
    async with world.running():
        await world.clock.advance(25)
        result = await see_out(world, world.begin(await world.accept()), 90)

    # 35 seconds of waiting and 43 of generating; the latter has a limit of 45.
    assert result.status == "completed"


async def test_the_wait_is_no_attempt() -> None:
    busy = [ModelOverloaded("busy")]
    world = TurnWorld(busy, busy, ["Hello"])
    world.limit(requests=1)
    async with world.running():
        request = await world.accept(
            detached=True, priority="low", limit_at_ms=world.clock.now_ms() + 600_000
        )
        result = await see_out(world, world.begin(request, "queue"), 300)

    assert result.status == "completed"
    assert len(world.model.calls) == 3
    starts = [call.started_at_ms for call in world.model.calls]
    assert all(later - earlier >= 60_000 for earlier, later in itertools.pairwise(starts))


async def test_a_turn_that_cannot_wait_that_long_fails_at_once_with_the_hint() -> None:
    world = TurnWorld(["Hello"])
    world.limit(requests=5)
    await spend(world, 5)
    async with world.running():
        result = await world.answer(within_s=2)

    frame = only(world.frames(), ResponseFailed)
    assert (result.status, result.code) == ("failed", "model_rate_limited")
    assert frame.retryable
    assert 58_000 < (frame.retry_after_ms or 0) <= 60_250
    assert world.model.calls == []
    assert world.dead_letters.letters == {} or not world.dead_letters.letters


async def test_a_function_hands_a_longer_wait_over_and_the_try_does_not_count() -> None:
    world = TurnWorld(["Hello"], **FUNCTION)
    world.limit(requests=5, holds_advance=False)
    await spend(world, 5)
    async with world.running():
        await world.clock.advance(30)
        request = await world.accept()
        result = await world.finish(world.begin(request, "burst"), within_s=10)

        assert result.outcome == "retry_later"
        assert 29_000 < result.delay_ms <= 30_250
        assert world.ledger._session(request.session).turns[request.turn_id].recovery.tries == 0
        await world.clock.advance(result.delay_ms / 1000)
        result = await world.finish(world.begin(request, "burst"))

    assert (result.status, result.attempt) == ("completed", 2)


async def test_a_function_spends_a_short_wait_itself() -> None:
    world = TurnWorld(["Hello"], **FUNCTION)
    world.limit(requests=5, holds_advance=False)
    await spend(world, 5)
    async with world.running():
        await world.clock.advance(57)
        result = await world.answer(path="burst")

    assert (result.status, result.attempt) == ("completed", 1)


async def test_a_wait_after_a_model_call_counts_as_the_retry_that_it_delays() -> None:
    world = TurnWorld([ModelOverloaded("busy", retry_after_ms=500)], ["Hello"], **FUNCTION)
    world.limit(requests=1, holds_advance=False)
    async with world.running():
        request = await world.accept(
            detached=True, priority="low", limit_at_ms=world.clock.now_ms() + 600_000
        )
        result = await see_out(world, world.begin(request, "burst"), 30)

    assert result.outcome == "retry_later"
    assert world.ledger._session(request.session).turns[request.turn_id].recovery.tries == 1


async def test_hand_overs_end_with_the_turns_own_limit() -> None:
    world = TurnWorld(["Hello"], **FUNCTION)
    world.limit(requests=6, holds_advance=False)
    async with world.running():
        for _ in range(6):  # one call lapses each ten seconds from now on
            await spend(world, 1)
            await world.clock.advance(10)
        request = await world.accept()
        results = []
        while len(results) < 15:
            await spend(world, 1)  # and others are always faster
            results.append(await see_out(world, world.begin(request, "burst"), 90))
            if results[-1].outcome != "retry_later":
                break
            await world.clock.advance(results[-1].delay_ms / 1000)

    assert results[-1].code == "model_rate_limited"
    assert 3 <= len(results) <= 8


async def test_a_reader_who_leaves_ends_the_wait() -> None:
    world = TurnWorld(["Hello"], reader_grace_ms=2_000)
    world.limit(requests=5)
    await spend(world, 5)
    async with world.running():
        await world.clock.advance(5)
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(1)
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        result = await world.finish(task, within_s=8)

    assert result.status == "cancelled"
    assert world.model.calls == []


async def test_an_answer_is_charged_with_what_it_used() -> None:
    world = TurnWorld(
        [[TextDelta("Hi"), ModelStopped("end_turn", Usage(input_tokens=700, output_tokens=50))]]
    )
    world.limit(tokens=1_000_000)
    async with world.running():
        await world.answer()
        await world.clock.advance(3)

    assert charged_tokens(world) == 750


@pytest.mark.parametrize("refusal", [ModelOverloaded("busy"), ModelRejected("no")])
async def test_a_call_that_the_provider_refused_is_charged_no_tokens(refusal: Exception) -> None:
    world = TurnWorld([refusal], [Forever()])
    world.limit(tokens=1_000_000)
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(0.01)
        await world.budget.tick()  # type: ignore[union-attr]
        await world.budget.tick()  # type: ignore[union-attr]
        charged = charged_tokens(world)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert charged == 0


@pytest.mark.parametrize(
    "script",
    [
        ["Half an ans", ModelTimeout("silence")],
        ["Half an ans", ModelOverloaded("error event")],
        ["Half an ans", ModelStopped("refusal", Usage())],
    ],
)
async def test_a_call_that_was_cut_off_is_charged_with_its_prompt_and_its_text(
    script: list[object],
) -> None:
    world = TurnWorld(script)  # type: ignore[arg-type]
    world.limit(tokens=1_000_000)
    async with world.running():
        await world.answer()
        await world.clock.advance(3)

    assert 10 < charged_tokens(world) < 300


async def test_an_inline_turn_costs_the_ledger_of_the_budget_nothing_of_its_own() -> None:
    world = TurnWorld(["Hello"])
    world.limit(requests=4_000, tokens=2_000_000)
    async with world.running():
        await world.answer()  # what calls look like has to be learnt
        await world.clock.advance(2)
        world.window.calls.clear()
        for _ in range(10):
            world.ledger.calls.clear()
            await world.answer(within_s=1)
            renewals = world.ledger.calls.count("renew_many")
            assert len(world.ledger.calls) - renewals <= 4  # besides `accept`

    taken_s = 1 + 10
    assert len(world.window.calls) <= 2 * taken_s


async def test_a_wait_is_logged_and_measured_without_a_word_of_the_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = TurnWorld(["Hello"])
    world.limit(requests=5)
    await spend(world, 5)
    async with world.running():
        await world.answer("my secret words", within_s=2)

    assert "turn.budget_short" in caplog.text
    assert "secret" not in json.dumps([str(record.__dict__) for record in caplog.records])


async def test_a_hundred_detached_turns_of_one_second_are_all_answered_under_twenty_a_minute() -> (
    None
):
    world = TurnWorld(["Hello"])
    world.limit(requests=20)
    slots = asyncio.Semaphore(20)

    async def run(number: int) -> TurnResult:
        now_ms = world.clock.now_ms()
        session = SessionId(f"session-{number}")
        request = await world.accept(
            session_id=session,
            turn_id=new_turn_id(session, now_ms, bytes(10)),
            detached=True,
            priority="normal",
            limit_at_ms=now_ms + 3_600_000,
        )
        async with slots:
            return await world.engine.pipeline.run(request, "queue")

    async with world.running():
        turns = [asyncio.create_task(run(number)) for number in range(100)]
        for _ in range(320):
            await world.clock.advance(1)
            if all(turn.done() for turn in turns):
                break

    assert {turn.result().status for turn in turns} == {"completed"}
    starts = sorted(call.started_at_ms for call in world.model.calls)
    assert len(starts) == 100
    assert all(later - first >= 60_000 for first, later in zip(starts, starts[20:], strict=False))
