"""What every IntentClassifier does, in memory and for real."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.adapters.index_builder import build_index
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.contracts.knowledge import GENERAL_INTENT, INTENT_LABELS, Intent
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.ports import IntentClassifier
from tests.fakes.knowledge import FakeIntentClassifier, small_corpus

EMBEDDER = WordLlamaEmbedder()


def fake(is_down: bool) -> IntentClassifier:
    classifier = FakeIntentClassifier({"parcel": "shipping", "recommend": "recommendation"})
    classifier.is_down = is_down
    return classifier


def linear(is_down: bool) -> IntentClassifier:
    index = build_index(read_corpus(small_corpus()), {}, EMBEDDER)

    def current():
        if is_down:
            raise DependencyUnavailable("no knowledge index is loaded")
        return index

    return LinearIntentClassifier(current, EMBEDDER)


@pytest.fixture(params=[fake, linear], ids=["fake", "linear"])
def make(request: pytest.FixtureRequest) -> Callable[[bool], IntentClassifier]:
    return request.param


@pytest.mark.parametrize(
    ("text", "label"),
    [("what does a parcel cost", "shipping"), ("recommend a series", "recommendation")],
)
async def test_classify_names_what_the_user_wants(
    make: Callable[[bool], IntentClassifier], text: str, label: str
) -> None:
    intent = await make(False).classify(text)
    assert intent.label == label
    assert 0.5 < intent.confidence <= 1


@pytest.mark.parametrize("text", ["", " \n"])
async def test_classify_of_a_blank_text_is_general_without_confidence(
    make: Callable[[bool], IntentClassifier], text: str
) -> None:
    assert await make(False).classify(text) == Intent(GENERAL_INTENT, 0.0)


@pytest.mark.parametrize("text", ["🐋" * 500, "送料", "\ud800", "word " * 4_000, "%s {0}"])
async def test_classify_survives_any_text(
    make: Callable[[bool], IntentClassifier], text: str
) -> None:
    intent = await make(False).classify(text)
    assert intent.label in (*INTENT_LABELS, GENERAL_INTENT)
    assert 0 <= intent.confidence <= 1


async def test_classify_that_cannot_ask_says_so(make: Callable[[bool], IntentClassifier]) -> None:
    with pytest.raises(DependencyUnavailable):
        await make(True).classify("parcel")
