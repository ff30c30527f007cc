from __future__ import annotations

import numpy as np
import pytest

from shared.adapters.intent_features import IntentFeatures
from shared.adapters.intent_training import judge, train_intents
from shared.contracts.knowledge import LabelledText
from shared.policy.corpus import read_corpus
from shared.policy.lexicon import Lexicon
from tests.fakes.knowledge import FakeEmbedder, small_corpus

EXAMPLES = read_corpus(small_corpus()).examples
FEATURES = IntentFeatures(Lexicon({}), FakeEmbedder())
TEXTS = [example.text for example in EXAMPLES]


def test_train_intents_learns_its_examples() -> None:
    model = train_intents(EXAMPLES, (), FEATURES).model
    assert model.labels == ("recommendation", "shipping")
    guesses = model.guess(FEATURES.rows(TEXTS))
    assert [guess.label for guess in guesses] == [example.label for example in EXAMPLES]
    assert all(0.5 < guess.confidence <= 1 for guess in guesses)


def test_train_intents_gives_the_same_weights_again() -> None:
    one = train_intents(EXAMPLES, (), FEATURES).model
    other = train_intents(EXAMPLES, (), FEATURES).model
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.bias, other.bias)


def test_train_intents_knows_what_each_example_would_get_from_a_model_without_it() -> None:
    unseen = train_intents(EXAMPLES, (), FEATURES).unseen
    for at, example in enumerate(EXAMPLES):
        others = [*EXAMPLES[:at], *EXAMPLES[at + 1 :]]
        (guess,) = train_intents(others, (), FEATURES).model.guess(FEATURES.rows([example.text]))
        assert unseen[at].label == guess.label


def test_train_intents_sets_the_floor_by_the_validation_part_alone() -> None:
    wrong = [LabelledText(text="zzz qqq", label="shipping"), LabelledText("qqq", "recommendation")]
    free = train_intents(EXAMPLES, (), FEATURES).model
    held = train_intents(EXAMPLES, (*EXAMPLES, *wrong), FEATURES).model
    assert free.floor == 0
    assert held.floor > 0
    assert np.array_equal(free.weights, held.weights)
    kept = [guess for guess in judge(held, wrong, FEATURES) if guess.confidence >= held.floor]
    assert all(guess.is_right for guess in kept)


def test_judge_of_nothing_is_nothing() -> None:
    assert judge(train_intents(EXAMPLES, (), FEATURES).model, (), FEATURES) == []


@pytest.mark.parametrize("text", ["", "🐋", "\ud800"])
def test_guess_is_a_probability_for_any_text(text: str) -> None:
    (guess,) = train_intents(EXAMPLES, (), FEATURES).model.guess(FEATURES.rows([text]))
    assert 0 < guess.confidence <= 1


def test_rows_bend_with_the_square_of_the_embeddings_cosine() -> None:
    embedder = FakeEmbedder()
    size = embedder.dimensions
    pairs = FEATURES.rows(TEXTS)[:, -(size * (size + 1) // 2) :]
    vectors = embedder.embed([" ".join(Lexicon({}).read(text)) for text in TEXTS])
    assert np.allclose(pairs @ pairs.T, (vectors @ vectors.T) ** 2, atol=1e-5)
