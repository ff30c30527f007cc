"""How often a process flushes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.policy.flush_pace import smoothed_lag_ms, tick_length_ms
from tests.fakes.limits import flush_limits

LIMITS = flush_limits()


def test_an_idle_process_ticks_at_the_base() -> None:
    assert tick_length_ms(0, LIMITS) == 40


@given(st.floats(0, 10_000), st.floats(0, 10_000))
def test_the_tick_grows_with_lag_up_to_its_maximum(lag_ms: float, more_ms: float) -> None:
    assert 40 <= tick_length_ms(lag_ms, LIMITS) <= tick_length_ms(lag_ms + more_ms, LIMITS) <= 500


def test_a_single_spike_stretches_little_and_fades() -> None:
    spike_ms = smoothed_lag_ms(0, 100)

    assert 0 < spike_ms < 50
    assert smoothed_lag_ms(spike_ms, -5) < spike_ms
