from __future__ import annotations

import numpy as np

from shared.adapters.intent_features import TEXT_LIMIT_CHARACTERS, IntentFeatures
from shared.policy.lexicon import Lexicon
from tests.fakes.knowledge import FakeEmbedder

FEATURES = IntentFeatures(
    Lexicon({"parcel": ("parcel",), "colis": ("parcel",), "ou est": ("where",)}), FakeEmbedder()
)


def test_rows_are_equal_for_texts_that_mean_the_same_word_by_word() -> None:
    one, other = FEATURES.rows(["where parcel", "Où est... COLIS!"])
    assert np.allclose(one, other)


def test_rows_of_different_texts_differ_and_a_blank_text_is_nearly_nothing() -> None:
    one, other, blank = FEATURES.rows(["where is it", "a parcel", " "])
    assert one @ other < 0.5 * (one @ one)
    assert np.count_nonzero(blank) == 1  # "knows no word of it"


def test_rows_read_only_the_beginning() -> None:
    beginning = "a" * TEXT_LIMIT_CHARACTERS
    one, other = FEATURES.rows([beginning, beginning + " parcel" * 9_000])
    assert np.array_equal(one, other)
