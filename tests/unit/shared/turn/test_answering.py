"""The work of a claimed turn: what is tried again, how often, and what is not."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.model import ModelAlive, ModelStopped
from shared.contracts.server_frames import (
    ResponseCompleted,
    ResponseFailed,
    ResponseStarted,
    Usage,
)
from shared.contracts.turns import TurnRequest
from shared.errors import (
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
)
from tests.fakes.model import CutOff
from tests.fakes.turn_world import TurnWorld, only, shown_text

BUSY = [ModelOverloaded("busy")]
NO_ANSWERS = ("refusal", "pause_turn", "tool_use", "brand_new_reason")


async def reopened(world: TurnWorld) -> TurnRequest:
    """A turn whose three tries failed, and that somebody redrove."""
    request = await world.accept()
    result = await world.finish(world.begin(request))
    assert (result.status, result.attempt) == ("failed", 1)
    again = msgspec.structs.replace(
        request, detached=True, priority="low", connection_id=None, attempt_hint=3
    )
    await world.ledger.reopen(again, now_ms=world.clock.now_ms())
    return again


async def test_a_redriven_turn_has_all_its_tries_although_its_attempts_go_on() -> None:
    world = TurnWorld(BUSY, BUSY, BUSY, BUSY, BUSY, ["Answer"])
    async with world.running():
        again = await reopened(world)
        result = await world.finish(world.begin(again, "queue"))

    assert (result.status, result.attempt) == ("completed", 4)
    assert len(world.model.calls) == 6
    assert only(world.log(again), ResponseCompleted).attempt == 4


async def test_a_redriven_turn_fails_when_its_new_tries_are_used_up() -> None:
    world = TurnWorld(*[BUSY] * 7)
    async with world.running():
        again = await reopened(world)
        result = await world.finish(world.begin(again, "queue"))

    assert (result.status, result.code) == ("failed", "model_overloaded")
    assert len(world.model.calls) == 6
    assert only(world.log(again), ResponseFailed).retryable


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
