"""From a claim to a prompt: what helps an answer, and what must not cost one."""

from __future__ import annotations

from tests.fakes.turn_world import TurnWorld


async def test_a_prompt_that_was_exchanged_counts_from_the_next_turn_on() -> None:
    world = TurnWorld(["One"], ["Two"])
    async with world.running():
        await world.answer("Hi")
        world.prompt = "You are a librarian."
        await world.answer("Hi again")

    assert [call.prompt.system for call in world.model.calls] == [
        "You are a bookseller.",
        "You are a librarian.",
    ]
