from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.load import FleetLoad, LoadSample
from shared.policy.wait_estimate import (
    STALLED_MS,
    UNMEASURED_TURN_MS,
    estimate_wait_ms,
    mean_turn_ms,
)


def sample(worker: str = "w", *, slots: int = 100, mean: float = 4_000.0) -> LoadSample:
    return LoadSample(
        worker=worker, at_ms=0, slots=slots, running=0, lag_ms=0, cpu_share=0, mean_turn_ms=mean
    )


def fleet(*samples: LoadSample, waiting: int = 0) -> FleetLoad:
    return FleetLoad(samples=samples, burst_waiting=waiting)


def test_wait_estimate_is_zero_when_nobody_waits():
    assert estimate_wait_ms(fleet(sample()), 1_000) == 0


def test_wait_estimate_is_one_mean_turn_when_as_many_wait_as_fit():
    assert estimate_wait_ms(fleet(sample(mean=4_000.0), waiting=1_000), 1_000) == 4_000


def test_wait_estimate_uses_a_default_turn_until_one_was_measured():
    assert mean_turn_ms(fleet(sample(mean=0.0))) == UNMEASURED_TURN_MS
    assert estimate_wait_ms(fleet(waiting=20), 20) == int(UNMEASURED_TURN_MS)


def test_mean_turn_is_weighted_by_slots():
    assert mean_turn_ms(
        fleet(sample("a", slots=30, mean=1_000.0), sample("b", slots=10, mean=5_000.0))
    ) == (2_000.0)


def test_wait_estimate_survives_a_burst_path_without_capacity():
    assert estimate_wait_ms(fleet(sample(mean=1_000.0), waiting=3), 0) == 3_000


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5))
def test_wait_estimate_grows_with_waiting_turns_and_shrinks_with_capacity(
    waiting: int, more: int, capacity: int, spare: int
):
    before = estimate_wait_ms(fleet(sample(), waiting=waiting), capacity)
    assert estimate_wait_ms(fleet(sample(), waiting=waiting + more), capacity) >= before
    assert estimate_wait_ms(fleet(sample(), waiting=waiting), capacity + spare) <= before


def test_wait_estimate_follows_the_measured_throughput_rather_than_the_capacity():
    measured = FleetLoad(samples=(sample(mean=4_000.0),), burst_waiting=100, burst_per_s=5.0)
    assert estimate_wait_ms(measured, 1_000) == 20_000


def test_a_queue_whose_old_turns_wait_for_long_is_as_slow_as_they_say():
    stalled = FleetLoad(
        samples=(sample(mean=1_000.0),), burst_waiting=10, burst_oldest_ms=STALLED_MS + 1
    )
    assert estimate_wait_ms(stalled, 1_000) == STALLED_MS + 1


def test_the_age_of_a_queue_that_has_just_drained_tells_nothing():
    drained = FleetLoad(
        samples=(sample(mean=1_000.0),), burst_waiting=10, burst_oldest_ms=STALLED_MS
    )
    assert estimate_wait_ms(drained, 1_000) == 10
    assert estimate_wait_ms(FleetLoad(samples=(), burst_waiting=0, burst_oldest_ms=60_000), 1) == 0
