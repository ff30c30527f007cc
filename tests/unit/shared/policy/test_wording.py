from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.wording import WORDING_BUCKETS, wording_features

WORDS = st.lists(st.sampled_from(["where", "my", "order", "title", "parcel"]), max_size=40)


def likeness(one: list[str], other: list[str]) -> float:
    first, second = wording_features(one), wording_features(other)
    return sum(weight * second.get(bucket, 0.0) for bucket, weight in first.items())


@given(WORDS)
def test_wording_features_are_bounded_and_within_the_buckets(words: list[str]) -> None:
    features = wording_features(words)
    assert bool(features) is bool(words)
    assert all(0 <= bucket < WORDING_BUCKETS for bucket in features)
    assert sum(weight * weight for weight in features.values()) < 2
    # Pairs come from the first words alone, so that a long message costs no more than its length.
    assert len(features) <= 3 * len(words) + 67


def test_wording_features_see_the_order_of_words_and_their_company() -> None:
    asked = ["where", "is", "my", "order"]
    assert likeness(asked, asked) == pytest.approx(1, abs=0.05)
    assert likeness(asked, ["order", "my", "is", "where"]) < 0.9
    assert likeness(asked, ["where", "is", "it"]) > likeness(asked, ["when", "was", "it"])


def test_wording_features_are_the_same_in_every_process() -> None:
    assert wording_features(["order"]) == pytest.approx(dict.fromkeys((5016, 9387, 14097), 3**-0.5))
