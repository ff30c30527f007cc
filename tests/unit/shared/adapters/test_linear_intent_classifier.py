from __future__ import annotations

from dataclasses import replace

from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.contracts.knowledge import GENERAL_INTENT
from tests.fakes.knowledge import FakeEmbedder, small_index

INDEX = small_index()


async def test_a_guess_below_the_floor_of_the_index_is_general() -> None:
    sure = LinearIntentClassifier(lambda: INDEX, FakeEmbedder())
    guess = await sure.classify("what does a parcel cost")
    assert guess.label == "shipping"

    strict = replace(INDEX, intents=replace(INDEX.intents, floor=guess.confidence + 0.001))
    intent = await LinearIntentClassifier(lambda: strict, FakeEmbedder()).classify(
        "what does a parcel cost"
    )
    assert (intent.label, intent.confidence) == (GENERAL_INTENT, guess.confidence)
