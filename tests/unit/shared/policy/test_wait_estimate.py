from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.load import FleetLoad, LoadSample
from shared.policy.wait_estimate import UNMEASURED_TURN_MS, estimate_wait_ms, mean_turn_ms


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
