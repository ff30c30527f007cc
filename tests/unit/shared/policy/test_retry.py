"""Whether a failed model call is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import (
    ConfigurationError,
    DependencyUnavailable,
    GuardrailBlocked,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    TransientError,
)
from shared.policy.backoff import ceiling_ms
from shared.policy.retry import GiveUp, HandOver, RetryAfter, RetryDecision, decide_retry
from tests.fakes.limits import turn_limits

LIMITS = turn_limits()
IN_A_FUNCTION = turn_limits(retry_in_process_limit_ms=4_000)
TRANSIENT = [
    ModelOverloaded,
    ModelRateLimited,
    ModelTimeout,
    ModelDisconnected,
    DependencyUnavailable,
]


def decide(error: Exception, **changes: Any) -> RetryDecision:
    arguments: dict[str, Any] = {
        "is_visible": False,
        "tries": 1,
        "now_ms": 0,
        "deadline_ms": 60_000,
        "spread": 0.5,
        "limits": LIMITS,
    }
    return decide_retry(error, **{**arguments, **changes})


def limited(hint_ms: int | None) -> ModelRateLimited:
    return ModelRateLimited("rate", retry_after_ms=hint_ms)


@pytest.mark.parametrize("error_type", TRANSIENT)
def test_transient_errors_are_retried_by_type(error_type: type[TransientError]) -> None:
    assert decide(error_type("words do not count: permanent")) == RetryAfter(500)
    assert decide(error_type("again"), tries=2) == RetryAfter(1_000)


@pytest.mark.parametrize(
    "error", [ModelRejected("busy"), GuardrailBlocked(), ConfigurationError(), KeyError("retry")]
)
def test_nothing_else_is_retried(error: Exception) -> None:
    assert decide(error) == GiveUp(None)


def test_nothing_is_retried_after_visible_text_or_the_last_attempt() -> None:
    assert decide(limited(100), is_visible=True) == GiveUp(100)
    assert decide(limited(100), tries=3) == GiveUp(100)


@pytest.mark.parametrize(
    ("hint_ms", "decision"),
    [
        (0, RetryAfter(0)),
        (2_000, RetryAfter(2_100)),
        (171_000, GiveUp(171_000)),
        (62_291_000, GiveUp(62_291_000)),
    ],
)
@pytest.mark.case("B-23")
def test_a_hint_is_honoured_or_passed_on(hint_ms: int, decision: RetryDecision) -> None:
    assert decide(limited(hint_ms)) == decision


@pytest.mark.case("B-23")
def test_a_function_does_not_sleep_long() -> None:
    assert decide(limited(10_000), limits=IN_A_FUNCTION) == HandOver(10_500)
    assert decide(limited(3_000), limits=IN_A_FUNCTION) == RetryAfter(3_150)


def test_without_a_deadline_a_minute_is_the_longest_wait() -> None:
    assert decide(limited(50_000), deadline_ms=None) == RetryAfter(52_500)
    assert decide(limited(60_001), deadline_ms=None) == GiveUp(60_001)


@given(
    hint_ms=st.none() | st.integers(0, 10**6),
    tries=st.integers(1, 4),
    now_ms=st.integers(0, 10**6),
    life_ms=st.none() | st.integers(-1_000, 10**6),
    spread=st.floats(0, 1),
)
def test_a_wait_never_outlives_the_turn_and_is_never_shorter_than_the_hint(
    hint_ms: int | None, tries: int, now_ms: int, life_ms: int | None, spread: float
) -> None:
    deadline_ms = None if life_ms is None else now_ms + life_ms
    decision = decide(
        limited(hint_ms),
        tries=tries,
        now_ms=now_ms,
        deadline_ms=deadline_ms,
        spread=spread,
        limits=IN_A_FUNCTION,
    )

    if isinstance(decision, GiveUp):
        assert decision.retry_after_ms == hint_ms
        return
    wait_ms = decision.wait_ms if isinstance(decision, RetryAfter) else decision.delay_ms
    assert isinstance(decision, RetryAfter) == (wait_ms <= 4_000)
    assert tries < 3
    assert wait_ms >= (hint_ms or 0)
    assert deadline_ms is None or now_ms + wait_ms < deadline_ms


@given(st.integers(1, 10_000), st.integers(-5, 100), st.integers(1, 60_000))
def test_the_back_off_grows_to_its_maximum(first_ms: int, failures: int, max_ms: int) -> None:
    assert 0 < ceiling_ms(first_ms, failures, max_ms) <= max_ms
    assert ceiling_ms(first_ms, failures, max_ms) <= ceiling_ms(first_ms, failures + 1, max_ms)
