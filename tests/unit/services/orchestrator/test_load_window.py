import pytest

from services.orchestrator.load_window import LagWindow, MeanTurn


def test_lag_is_zero_before_the_first_probe_and_after_closing():
    window = LagWindow()
    assert window.close() == 0.0
    window.add(50)
    window.close()
    assert window.close() == 0.0


def test_one_late_probe_among_twenty_is_no_lag():
    window = LagWindow()
    for delay_ms in [1.0] * 19 + [500.0]:
        window.add(delay_ms)
    assert window.close() == 1.0


@pytest.mark.case("B-18")
def test_a_blocked_loop_shows_although_it_probes_rarely():
    window = LagWindow()
    window.add(480)
    window.add(460)
    assert window.close() == 460


def test_an_early_timer_counts_as_no_delay():
    window = LagWindow()
    window.add(-3)
    assert window.close() == 0.0


def test_mean_turn_starts_with_the_first_and_follows_slowly():
    mean = MeanTurn()
    mean.add(1_000)
    assert mean.value_ms == 1_000
    mean.add(2_000)
    assert mean.value_ms == 1_100
