from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.spelling import SPELLING_BUCKETS, spelling_features


def overlap(one: str, other: str) -> float:
    first, second = spelling_features(one), spelling_features(other)
    return sum(weight * second.get(bucket, 0) for bucket, weight in first.items())


@given(st.text())
def test_spelling_features_have_length_one_within_the_buckets(text: str) -> None:
    features = spelling_features(text)
    if text.split():
        assert sum(weight * weight for weight in features.values()) == pytest.approx(1)
    assert all(0 <= bucket < SPELLING_BUCKETS for bucket in features)


def test_spelling_features_of_a_typo_stay_near() -> None:
    assert overlap("where is my order", "where is my ordr") > 0.8
    assert overlap("where is my order", "good morning") < 0.3


def test_spelling_features_are_the_same_in_every_process() -> None:
    assert spelling_features("ab") == pytest.approx(dict.fromkeys((1376, 488, 2264), 3**-0.5))
