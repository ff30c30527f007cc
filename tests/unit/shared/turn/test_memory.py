"""What the model may know of the conversation, and what an earlier attempt stored."""

from __future__ import annotations

import itertools

import pytest

from shared.contracts.server_frames import (
    ResponseStarted,
)
from tests.fakes.clock import settle
from tests.fakes.turn_world import TurnWorld, after_put, only, shown_text


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


async def test_a_turn_that_is_answered_late_stands_at_its_own_place() -> None:
    world = TurnWorld(["One"], ["Two"], ["Late"], ["Four"])
    async with world.running():
        late = await world.accept("late", detached=True, priority="low")
        await world.answer("first")
        await world.answer("second")
        await world.finish(world.begin(late, "queue"))
        await world.answer("fourth")

    asked = [m.content for m in world.model.calls[3].prompt.messages if m.role == "user"]
    assert asked[:3] == ["late", "first", "second"]


async def test_long_talks_keep_their_beginning_for_some_turns_so_that_the_cache_hits() -> None:
    turns = 45
    world = TurnWorld(*([f"answer {n}"] for n in range(turns)))
    async with world.running():
        for number in range(turns):
            await world.answer(f"question {number}")

    prompts = [call.prompt for call in world.model.calls]
    stable = [prompt.messages[: prompt.stable_messages] for prompt in prompts]
    kept = [after[: len(before)] == before for before, after in itertools.pairwise(stable)]
    assert kept.count(False) <= 5  # once per cut
    assert all(len(prompt.messages) // 2 >= 15 for prompt in prompts[20:])
    assert world.store.reads == 1


async def test_a_message_as_long_as_a_message_may_be_is_remembered() -> None:
    world = TurnWorld(["Read it."], ["It ends so."])
    long = f"Here it begins. {'word ' * 3_000}Here it ends."
    async with world.running():
        await world.answer(long)
        await world.answer("how does it end?")

    before = str(world.model.calls[1].prompt.messages[0].content)
    assert before.startswith("Here it begins.")
    assert before.endswith("Here it ends.")
