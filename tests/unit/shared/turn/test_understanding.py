"""What a message wants, alone and after others."""

from __future__ import annotations

import asyncio
import io

import pytest

from shared.contracts.knowledge import GENERAL_INTENT, Intent, PassageEntry
from shared.contracts.stored_turns import HistoryEntry
from shared.telemetry import Metrics
from shared.turn.left_out import LeftOut
from shared.turn.understanding import Understanding, Wish
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeCatalogue, FakeIntentClassifier
from tests.fakes.limits import turn_limits

LABELS = {
    "wrote": "product_question",
    "recommend": "recommendation",
    "order": "order_status",
    "arrive": "shipping",
    "long": "shipping",
    "cost": "shipping",
    "hello": "chit_chat",
    "sequel": "out_of_scope",
    "rain": "out_of_scope",
}
ENTRIES = tuple(
    PassageEntry(
        id=f"{title}#1",
        source_id=title,
        title=title,
        text="",
        kind="series",
        facts={"themes": ("horror",)},
    )
    for title in ("Naruto", "Bleach", "Akira")
)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.classifier = FakeIntentClassifier(LABELS)
        self.catalogue = FakeCatalogue(ENTRIES)
        self.metrics = io.StringIO()
        self.understanding = Understanding(
            self.classifier,
            self.catalogue,
            self.clock,
            turn_limits(),
            LeftOut(Metrics("burstchat", "orchestrator", self.clock, self.metrics)),
        )

    async def read(self, question: str, *before: tuple[str, str]) -> Wish:
        history = [HistoryEntry(str(at), *turn) for at, turn in enumerate(before)]
        return await self.understanding.read(question, history)


ABOUT_NARUTO = ("what is naruto about", "It is about ninjas. [Naruto]")


@pytest.mark.parametrize("question", ["who wrote it?", "hello", "is it long"])
async def test_the_first_message_of_a_conversation_stands_alone(question: str) -> None:
    wish = await World().read(question)

    assert (wish.search_text, wish.leans) == (question, False)


async def test_it_is_the_title_that_was_just_talked_about() -> None:
    wish = await World().read("who wrote it?", ABOUT_NARUTO)

    assert wish == Wish(Intent("product_question", 0.9), 'who wrote it? "Naruto"', leans=True)


async def test_a_title_is_remembered_for_three_turns_and_not_longer() -> None:
    thanks = ("thanks", "You are welcome.")

    assert (await World().read("who wrote it?", ABOUT_NARUTO, thanks, thanks)).leans
    assert not (await World().read("who wrote it?", ABOUT_NARUTO, thanks, thanks, thanks)).leans


async def test_the_second_one_is_the_second_of_the_answer() -> None:
    before = ("recommend something like naruto", "1. **Bleach** 2. **Akira**")

    wish = await World().read("and the second one?", before)

    assert wish.search_text == 'and the second one? "Akira"'


async def test_a_message_that_names_a_title_means_that_one() -> None:
    wish = await World().read("who wrote akira?", ABOUT_NARUTO)

    assert wish == Wish(Intent("product_question", 0.9), "who wrote akira?")


@pytest.mark.parametrize("question", ["horror", "what about horror?", "recommend me something"])
async def test_a_new_wish_is_no_follow_up_however_short(question: str) -> None:
    wish = await World().read(question, ABOUT_NARUTO)

    assert (wish.intent.label, wish.search_text) == ("recommendation", question)
    assert not wish.leans


@pytest.mark.parametrize("question", ["more horror", "is it horror?", "another horror", "and?"])
async def test_a_trait_of_something_said_before_is_no_new_wish(question: str) -> None:
    assert (await World().read(question, ABOUT_NARUTO)).leans


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("does it have a sequel", GENERAL_INTENT),  # idle by itself
        ("how long is it?", GENERAL_INTENT),  # sounds like a parcel
        ("any others like it?", "recommendation"),
        ("recommend more like that", "recommendation"),
    ],
)
async def test_what_seems_something_else_is_about_the_title(question: str, label: str) -> None:
    wish = await World().read(question, ABOUT_NARUTO)

    assert (wish.intent.label, wish.search_text) == (label, f'{question} "Naruto"')


async def test_a_title_just_named_outweighs_an_unsure_guess_at_a_rule_but_no_sure_one() -> None:
    world = World()

    async def classify(text: str) -> Intent:
        return Intent("shipping", confidence)

    world.classifier.classify = classify  # type: ignore[method-assign]
    confidence = 0.5
    assert (await world.read("how many volumes does it have?", ABOUT_NARUTO)).intent.label == (
        GENERAL_INTENT
    )
    confidence = 0.9
    assert (await world.read("how many volumes does it have?", ABOUT_NARUTO)).intent.label == (
        "shipping"
    )


@pytest.mark.parametrize("question", ["hello", "will it rain tomorrow?", "hello that's nice"])
async def test_idle_talk_stays_idle_talk(question: str) -> None:
    wish = await World().read(question, ABOUT_NARUTO)

    assert (wish.search_text, wish.leans) == (question, False)
    assert wish.intent.label in {"chit_chat", "out_of_scope"}


async def test_an_order_asked_about_is_still_meant_by_when_it_will_arrive() -> None:
    wish = await World().read("when will it arrive?", ("where is my order", "On its way."))

    assert wish.intent.label == "order_status"
    assert wish.search_text == "where is my order when will it arrive?"


async def test_another_question_about_the_same_order_keeps_its_intent() -> None:
    wish = await World().read("is that order late?", ("where is my order", "On its way."))

    assert wish == Wish(
        Intent("order_status", 0.9), "where is my order is that order late?", leans=True
    )


async def test_a_question_about_rules_takes_the_one_before_with_it_only_when_it_points_back() -> (
    None
):
    before = ("parcels to canada", "Seven days.")

    assert (await World().read("what does that cost", before)).search_text == (
        "parcels to canada what does that cost"
    )
    assert not (await World().read("what does express cost", before)).leans
    assert (await World().read("what does that cost", before)).intent.label == "shipping"


async def test_without_any_title_the_intent_before_is_taken_up() -> None:
    wish = await World().read("and abroad?", ("what does a parcel cost", "5 USD."))

    assert (wish.intent.label, wish.leans) == ("shipping", True)
    assert not (await World().read("and abroad?", ("hello", "Hello!"))).leans
    assert not (await World().read("recommend one", ("hello", "Hello!"))).leans


async def test_a_dead_catalogue_or_classifier_costs_understanding_only() -> None:
    world = World()
    world.catalogue.is_down = True

    wish = await world.read("who wrote it?", ABOUT_NARUTO)

    assert wish == Wish(Intent("product_question", 0.9), "who wrote it?")
    world.classifier.is_down = True
    assert (await world.read("who wrote it?")).intent == Intent(GENERAL_INTENT, 0.0)
    assert '"Source":"follow_up","Reason":"unavailable"' in world.metrics.getvalue()
    assert '"Source":"intent","Reason":"unavailable"' in world.metrics.getvalue()


async def test_a_slow_catalogue_costs_no_more_than_the_deadline() -> None:
    world = World()

    async def never(text: str, limit: int) -> tuple[()]:
        await world.clock.sleep(60)
        return ()

    world.catalogue.named = never  # type: ignore[method-assign]
    reading = asyncio.create_task(world.read("who wrote it?", ABOUT_NARUTO))
    await world.clock.advance(0.31)

    assert not (await reading).leans
    assert '"Reason":"timeout"' in world.metrics.getvalue()
