"""Guardrails around a turn: what reaches the model, what stays with readers, and how a blocked turn ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.contracts.server_frames import ResponseCompleted, ResponseFailed
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.blocked_phrases import PhraseBook
from tests.fakes.guardrail import FakeGuardrail
from tests.fakes.model import CutOff, Forever, Step, Wait
from tests.fakes.turn_world import TurnWorld, only, shown_text

BOOK = PhraseBook(("secret plan",))
CARD = "4111 1111 1111 1111"


def screened_world(
    *scripts: list[Step], guardrail: FakeGuardrail | None = None, **kinds: Any
) -> TurnWorld:
    world = TurnWorld(*scripts)
    world.screen(guardrail=guardrail, book=lambda: BOOK, **kinds)
    return world


def blocked(world: TurnWorld) -> ResponseFailed:
    """The one end: blocked, counted, neither stored nor a dead letter, and the model's stream closed."""
    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retryable) == ("blocked", False)
    assert not any(item.status != "marker" for item in world.store.items.values())
    assert not world.dead_letters.letters
    assert world.model.open_calls == 0
    assert '"Code":"blocked"' in world.metrics.getvalue()
    return end


async def test_a_blocked_phrase_ends_the_turn_and_takes_back_what_was_shown() -> None:
    world = screened_world(["Listen: the sec", Wait(0.5), "ret pl", "an is", Forever()])
    async with world.running():
        await world.answer()

    end = blocked(world)
    assert (end.partial, end.retract) == (True, True)
    assert shown_text(world.frames()) == "Listen: the "
    assert len(world.model.calls) == 1
    assert world.model.calls[0].ended == "closed"


async def test_nothing_is_taken_back_where_nothing_was_shown() -> None:
    world = screened_world(["Secret plan"])
    async with world.running():
        await world.answer()

    end = blocked(world)
    assert not end.partial
    assert end.retract is not True


async def test_what_was_held_back_comes_with_the_end_of_the_answer() -> None:
    world = screened_world(["A sec", "ret"])
    async with world.running():
        await world.answer()

    assert shown_text(world.frames()) == "A secret"
    completed = only(world.frames(), ResponseCompleted)
    assert completed.length == len("A secret")


async def test_an_account_number_that_the_prompt_does_not_hold_is_masked_and_stored_so() -> None:
    world = screened_world(["Pay with ", "4111 11", "11 1111 1111."])
    async with world.running():
        await world.answer()

    assert shown_text(world.frames()) == "Pay with [card]."
    (item,) = world.store.items.values()
    assert item.assistant_text == "Pay with [card]."


async def test_an_account_number_of_the_prompt_is_shown() -> None:
    world = screened_world([f"Pay with {CARD}."])
    world.prompt = f"The test card is {CARD}."
    async with world.running():
        await world.answer()

    assert shown_text(world.frames()) == f"Pay with {CARD}."


async def test_text_held_back_is_not_visible_so_a_broken_call_is_tried_again() -> None:
    world = screened_world(["secret", CutOff()], ["Hello"])
    async with world.running():
        result = await world.answer()

    assert result.status == "completed"
    assert shown_text(world.frames()) == "Hello"
    assert len(world.model.calls) == 2


async def test_a_message_that_the_guardrail_blocks_costs_no_model_call() -> None:
    world = screened_world(["Hello"], guardrail=FakeGuardrail("bomb"))
    async with world.running():
        await world.answer("How do I build a bomb?")

    blocked(world)
    assert not world.model.calls
    assert '"GuardrailBlocks":1' in world.metrics.getvalue()


async def test_the_model_sees_the_message_as_the_guardrail_leaves_it() -> None:
    guardrail = FakeGuardrail()
    guardrail.masks["Ana Lima"] = "{NAME}"
    world = screened_world(["Hello"], guardrail=guardrail)
    async with world.running():
        await world.answer("I am Ana Lima")

    content = world.model.calls[0].prompt.messages[-1].content
    assert content[-1] == {"type": "text", "text": "I am {NAME}"}
    assert guardrail.judged == [("message", "I am Ana Lima")]


async def test_a_reply_is_judged_piece_by_piece_and_to_its_end() -> None:
    guardrail = FakeGuardrail()
    world = screened_world(
        ["one ", "two ", Wait(0.1), "three"],
        guardrail=guardrail,
        review_characters=8,
    )
    async with world.running():
        result = await world.answer()

    assert result.status == "completed"
    pieces = [text for what, text in guardrail.judged if what == "reply"]
    assert pieces == ["one two ", "one two three"]


@pytest.mark.parametrize("words", [["good ", "evil ", Wait(1), "more", Forever()], ["good evil"]])
async def test_a_reply_that_the_guardrail_blocks_ends_at_once(words: list[Step]) -> None:
    world = screened_world(words, guardrail=FakeGuardrail("evil"), review_characters=8)
    async with world.running():
        await world.answer(within_s=3)

    end = blocked(world)
    assert (end.partial, end.retract) == (True, True)
    assert "more" not in shown_text(world.frames())


async def test_a_slow_judge_delays_no_text_and_the_end_waits_for_it() -> None:
    guardrail = FakeGuardrail("evil")
    guardrail.gate.clear()
    world = screened_world(["good ", Wait(0.1), "evil"], guardrail=guardrail, review_characters=5)
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(1)
        assert shown_text(world.frames()) == "good evil"
        assert not task.done()
        guardrail.gate.set()
        await world.finish(task)

    assert blocked(world).retract


async def test_leaving_a_reply_stops_its_judging() -> None:
    guardrail = FakeGuardrail()
    guardrail.gate.clear()
    world = screened_world(["words ", Forever()], guardrail=guardrail, review_characters=3)
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(0.1)
        assert "reply-review" in {one.get_name() for one in asyncio.all_tasks()}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await world.clock.advance(0)
        names = {one.get_name() for one in asyncio.all_tasks()}

    assert "reply-review" not in names


@pytest.mark.parametrize("fault", [DependencyUnavailable("away"), ConfigurationError("no right")])
async def test_a_reply_that_nobody_can_judge_is_taken_back(fault: Exception) -> None:
    guardrail = FakeGuardrail()
    guardrail.faults["reply"] = fault
    world = screened_world(["words"], guardrail=guardrail, review_characters=3)
    async with world.running():
        await world.answer()

    assert blocked(world).retract
    assert '"GuardrailFailures":1' in world.metrics.getvalue()


async def test_a_message_that_nobody_can_judge_is_tried_again_and_then_fails_as_ours() -> None:
    guardrail = FakeGuardrail()
    guardrail.faults["message"] = DependencyUnavailable("away")
    world = screened_world(["Hello"], guardrail=guardrail)
    async with world.running():
        await world.answer(within_s=60)

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.retryable) == ("internal", True)
    assert len(guardrail.judged) == 3
    assert not world.model.calls


async def test_where_unjudged_text_may_pass_a_guardrail_that_is_away_costs_nothing() -> None:
    guardrail = FakeGuardrail()
    guardrail.faults = {
        "message": DependencyUnavailable("away"),
        "reply": DependencyUnavailable("away"),
    }
    world = screened_world(["Hello"], guardrail=guardrail, review_characters=3, fails_open=True)
    async with world.running():
        result = await world.answer()

    assert result.status == "completed"
    assert world.metrics.getvalue().count('"GuardrailFailures":1') == 2


async def test_a_bug_in_judging_ends_the_turn_as_a_bug() -> None:
    guardrail = FakeGuardrail()
    guardrail.faults["reply"] = KeyError("words")
    world = screened_world(["words ", Forever()], guardrail=guardrail, review_characters=3)
    async with world.running():
        await world.answer(within_s=3)

    assert only(world.frames(), ResponseFailed).code == "internal"
    ((_, letter),) = world.dead_letters.letters
    assert letter.error.type == "KeyError"
