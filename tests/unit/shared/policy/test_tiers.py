from hypothesis import given
from hypothesis import strategies as st

from shared.policy.load_level import LoadLevel
from shared.policy.tiers import is_throttled, tier_refusal, tier_retry_after_ms

levels = st.sampled_from(LoadLevel)
YIELDING = ("low", "normal", "high")
"""In the order in which they are refused."""


def test_tiers_yield_one_level_after_the_other():
    refused = {
        level.name: [priority for priority in YIELDING if tier_refusal(priority, level)]
        for level in LoadLevel
    }
    assert refused == {
        "NORMAL": [],
        "MILD": [],
        "MODERATE": ["low"],
        "SEVERE": ["low", "normal"],
    }


@given(levels)
def test_who_is_refused_has_nobody_below_who_is_not(level: LoadLevel):
    refused = [tier_refusal(priority, level) is not None for priority in YIELDING]
    assert refused == sorted(refused, reverse=True)


@given(levels, levels, st.sampled_from(YIELDING))
def test_more_load_never_lets_in_what_less_refuses(one: LoadLevel, other: LoadLevel, priority):
    if tier_refusal(priority, min(one, other)):
        assert tier_refusal(priority, max(one, other))
    if is_throttled(priority, min(one, other)):
        assert is_throttled(priority, max(one, other))


def test_only_low_turns_are_throttled_and_only_under_load():
    throttled = [
        (level, each) for level in LoadLevel for each in YIELDING if is_throttled(each, level)
    ]
    assert throttled == [(level, "low") for level in LoadLevel if level >= LoadLevel.MILD]


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_hints_grow_with_the_wait_up_to_two_minutes(wait_ms: int, more_ms: int):
    for reason in ("low_refused", "normal_refused"):
        hint_ms = tier_retry_after_ms(reason, wait_ms)
        assert 15_000 <= hint_ms <= tier_retry_after_ms(reason, wait_ms + more_ms) <= 120_000
