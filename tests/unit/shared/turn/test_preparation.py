"""From a claim to a prompt: what helps an answer, and what must not cost one."""

from __future__ import annotations

from shared.contracts.knowledge import PassageEntry
from shared.contracts.orders import Order
from shared.contracts.server_frames import (
    ResponseCompleted,
    ResponseFailed,
    ResponseStarted,
)
from tests.fakes.turn_world import TurnWorld, only


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


async def test_a_blank_message_is_a_malformed_turn() -> None:
    world = TurnWorld()
    async with world.running():
        await world.answer("   ")

    ((_, letter),) = world.dead_letters.letters
    assert letter.klass == "malformed"
    assert [type(frame) for frame in world.frames()] == [ResponseStarted, ResponseFailed]
    assert not world.model.calls


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


async def test_a_follow_up_finds_the_title_of_the_turn_before() -> None:
    entry = PassageEntry(
        id="akira#1",
        source_id="akira",
        title="Akira",
        text="Akira by Katsuhiro Otomo. Volumes: 6.",
        kind="series",
        facts={"volumes": ("6",)},
    )
    world = TurnWorld(["It is about **Akira**."], ["Six."])
    world.catalogue.entries = (entry,)
    async with world.running():
        await world.answer("recommend one")
        await world.answer("how many volumes does it have?")

    completed = [frame for frame in world.frames() if isinstance(frame, ResponseCompleted)]
    assert [[source.id for source in frame.sources] for frame in completed] == [[], ["akira"]]
    blocks = world.model.calls[1].prompt.messages[-1].content
    assert "Volumes: 6." in blocks[0]["text"]  # type: ignore[index,call-overload]


async def test_orders_in_the_prompt_are_the_users_own() -> None:
    world = TurnWorld(["On its way."])
    world.classifier.labels_by_word["order"] = "order_status"
    world.orders.by_owner = {
        ("acme", user): (Order(number=f"of-{user}", status="shipped", placed_on="", lines=()),)
        for user in ("ana", "bob")
    }
    async with world.running():
        await world.answer("where is order of-bob")

    told = str(world.model.calls[0].prompt.messages[-1].content)
    assert 'number="of-ana"' in told
    assert 'number="of-bob"' not in told
    assert [s.id for s in only(world.frames(), ResponseCompleted).sources] == ["order:of-ana"]
