from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.load import FleetLoad, LoadSample
from shared.policy.queue_forecast import QueueForecast

T0 = 1_700_000_000_000
SAMPLE = LoadSample(
    worker="w", at_ms=0, slots=8, running=8, lag_ms=0, cpu_share=0, mean_turn_ms=2_000
)


def reading(entered: int, waiting: int) -> FleetLoad:
    return FleetLoad(samples=(SAMPLE,), burst_waiting=waiting, burst_entered=entered)


def forecast(*readings: tuple[int, int], capacity: int = 20, every_ms: int = 1_000):
    """After one reading of (entered, waiting) a second, the last one at T0."""
    made = QueueForecast(capacity)
    first_at_ms = T0 - every_ms * (len(readings) - 1)
    for number, (entered, waiting) in enumerate(readings):
        made.read(reading(entered, waiting), first_at_ms + number * every_ms)
    return made


def test_nothing_is_predicted_before_the_first_reading():
    assert QueueForecast(20).wait_ms(T0, T0) == 0


def test_without_a_busy_queue_the_throughput_is_what_one_expects_of_the_capacity():
    assert forecast((0, 0)).per_s == 10.0
    assert forecast((0, 0), (3, 3), (9, 3), (15, 3)).per_s == 10.0


def test_what_leaves_a_busy_queue_teaches_its_throughput():
    slow = forecast(*((100 + 4 * number, 100) for number in range(60)))
    assert 4.0 < slow.per_s < 5.5
    fast = forecast(*((100 + 40 * number, 100) for number in range(60)))
    assert 30 < fast.per_s < 40.0


def test_evidence_fades_when_the_queue_is_no_longer_busy():
    busy = [(100 + 4 * number, 100) for number in range(60)]
    calm = [(340, 0)] * 90
    assert 9.5 < forecast(*busy, *calm).per_s <= 10.0


def test_a_turn_waits_for_those_before_it_and_no_longer_than_they_take():
    made = forecast((0, 0), (100, 100), (100, 90), (100, 80))
    # Queued one second after the first reading, when all hundred had come: eighty of them are left.
    assert made.wait_ms(T0 - 2_000, T0) == 8_000
    # In the middle of the rush half of them stood before it.
    assert made.wait_ms(T0 - 2_500, T0) == 3_000


def test_a_prediction_falls_while_time_passes_between_readings():
    made = forecast((0, 0), (100, 100), (100, 90), (100, 80))
    assert made.wait_ms(T0 - 2_000, T0 + 500) == 7_500


def test_a_turn_that_is_overdue_waits_for_the_next_batch():
    made = forecast((0, 0), (100, 100), (100, 90), (100, 80))
    assert made.wait_ms(T0 - 3_000, T0) == 600
    assert made.wait_ms(T0 - 60_000, T0) == 600


def test_those_who_came_since_the_last_reading_are_reckoned_with():
    made = forecast((0, 0), (40, 40))
    assert made.wait_ms(T0 + 500, T0 + 500) == round((60 - made.per_s / 2) * 1_000 / made.per_s)


def test_one_reading_alone_knows_only_how_many_have_come():
    made = forecast((50, 30))
    assert made.wait_ms(T0, T0) == 3_000


def test_counters_that_start_anew_are_no_evidence():
    made = forecast(*((100 + 4 * number, 100) for number in range(60)))
    learned = made.per_s
    made.read(reading(5, 5), T0 + 1_000)
    assert made.per_s == learned
    assert made.wait_ms(T0 + 1_000, T0 + 1_000) == int(6_000 / learned)
    made.read(reading(9, 5), T0)  # the clock was set back
    assert made.per_s == learned


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=40),
    st.integers(0, 100_000),
    st.integers(0, 5_000),
    st.integers(1, 10_000),
)
def test_the_later_a_turn_was_queued_the_longer_it_waits(
    steps: list[tuple[int, int]], ago_ms: int, later_ms: int, capacity: int
):
    entered, readings = 0, []
    for came, waiting in steps:
        entered += came
        readings.append((entered, min(waiting, entered)))
    made = forecast(*readings, capacity=capacity)
    now_ms = T0 + 300
    first, second = now_ms - ago_ms, min(now_ms, now_ms - ago_ms + later_ms)
    assert made.wait_ms(first, now_ms) > 0 or made.per_s > 1_000
    assert made.wait_ms(first, now_ms) <= made.wait_ms(second, now_ms)
