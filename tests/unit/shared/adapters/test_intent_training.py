from __future__ import annotations

import numpy as np
import pytest

from shared.adapters.intent_training import (
    TEXT_LIMIT_CHARACTERS,
    intent_features,
    train_intents,
)
from shared.policy.corpus import read_corpus
from shared.policy.spelling import SPELLING_BUCKETS
from tests.fakes.knowledge import FakeEmbedder, small_corpus

EXAMPLES = read_corpus(small_corpus()).examples


def test_train_intents_learns_its_examples() -> None:
    model = train_intents(EXAMPLES, FakeEmbedder())
    features = intent_features([example.text for example in EXAMPLES], FakeEmbedder())
    shares = model.probabilities(features)
    assert model.labels == ("recommendation", "shipping")
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    guessed = [model.labels[best] for best in shares.argmax(axis=1)]
    assert guessed == [example.label for example in EXAMPLES]


def test_train_intents_gives_the_same_weights_again() -> None:
    one, other = train_intents(EXAMPLES, FakeEmbedder()), train_intents(EXAMPLES, FakeEmbedder())
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(one.bias, other.bias)


def test_intent_features_hold_embedding_then_spelling() -> None:
    features = intent_features(["parcel", ""], FakeEmbedder())
    assert features.shape == (2, 64 + SPELLING_BUCKETS)
    assert np.linalg.norm(features[0, :64]) == pytest.approx(1)
    assert np.linalg.norm(features[0, 64:]) == pytest.approx(1)
    assert not features[1].any()


def test_intent_features_read_only_the_beginning() -> None:
    beginning = "a" * TEXT_LIMIT_CHARACTERS
    one, other = intent_features([beginning, beginning + " parcel" * 9_000], FakeEmbedder())
    assert np.array_equal(one, other)
