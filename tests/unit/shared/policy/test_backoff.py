"""Back-off doubles, never beyond its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.backoff import ceiling_ms, spread_ms


@pytest.mark.parametrize(
    ("failures", "ms"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (90, 1_000)]
)
def test_the_ceiling_doubles_with_each_failure_up_to_the_longest(failures: int, ms: int) -> None:
    assert ceiling_ms(100, failures, 1_000) == ms


@pytest.mark.parametrize("failures", [0, -3])
def test_without_a_failure_the_ceiling_is_that_of_the_first(failures: int) -> None:
    assert ceiling_ms(100, failures, 1_000) == 100


@given(
    st.integers(1, 10_000), st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 600_000)
)
def test_more_failures_never_wait_less(first_ms: int, fewer: int, more: int, max_ms: int) -> None:
    fewer, more = sorted((fewer, more))
    assert 0 < ceiling_ms(first_ms, fewer, max_ms) <= ceiling_ms(first_ms, more, max_ms) <= max_ms


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_a_spread_hint_is_never_earlier_and_never_later_than_twice(hint_ms: int, chance: float):
    assert hint_ms <= spread_ms(hint_ms, chance) <= 2 * hint_ms
