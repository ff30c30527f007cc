import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.load import FleetLoad, LoadSample
from shared.policy.limits import AnswerPlan
from shared.policy.load_level import LevelState, LoadLevel, answer_plan, next_level
from tests.fakes.limits import answer_plan as plan_of

CAPACITY = 900
NORMAL_PLAN = plan_of("primary")


def fleet(waiting: int, *, mean: float = 1_000.0, running: int = 100) -> FleetLoad:
    """100 inline slots beside 900 turns in burst: a capacity of 1,000."""
    sample = LoadSample(
        worker="w", at_ms=0, slots=100, running=running, lag_ms=0, cpu_share=0, mean_turn_ms=mean
    )
    return FleetLoad(samples=(sample,), burst_waiting=waiting)


def after(*readings: tuple[int, int], start: LoadLevel = LoadLevel.NORMAL) -> LoadLevel:
    """The level after readings of (waiting turns, time in ms)."""
    state = LevelState(start)
    for waiting, now_ms in readings:
        state = next_level(state, fleet(waiting), CAPACITY, now_ms)
    return state.level


def test_with_nobody_waiting_the_level_is_normal_however_many_run():
    assert after((0, 0)) is LoadLevel.NORMAL


def test_levels_are_entered_at_their_share_of_the_capacity():
    assert after((499, 0)) is LoadLevel.NORMAL
    assert after((500, 0)) is LoadLevel.MILD
    assert after((1_500, 0)) is LoadLevel.MODERATE
    assert after((3_000, 0)) is LoadLevel.SEVERE


def test_a_long_predicted_wait_enters_a_level_too():
    state = next_level(LevelState(), fleet(100, mean=280_000), CAPACITY, 0)
    assert state.level is LoadLevel.MODERATE


def test_a_level_is_left_after_ten_calm_seconds():
    assert after((3_000, 0), (0, 1_000), (0, 10_999)) is LoadLevel.SEVERE
    assert after((3_000, 0), (0, 1_000), (0, 11_000)) is LoadLevel.NORMAL
    assert after((3_000, 0), (1_200, 1_000), (1_200, 11_000)) is LoadLevel.MODERATE


def test_calm_must_last_without_a_break():
    assert after((500, 0), (0, 1_000), (400, 9_000), (0, 10_000), (0, 19_999)) is LoadLevel.MILD
    assert after((500, 0), (0, 1_000), (400, 9_000), (0, 10_000), (0, 20_000)) is LoadLevel.NORMAL


@pytest.mark.case("B-31")
def test_a_load_that_comes_back_must_stay_away_twice_as_long_each_time():
    state, now_ms, lasted_s = LevelState(), 0, []
    for _ in range(6):
        state = next_level(state, fleet(500), CAPACITY, now_ms)
        entered_at_ms = now_ms
        while state.level is not LoadLevel.NORMAL:
            now_ms += 1_000
            state = next_level(state, fleet(0), CAPACITY, now_ms)
        lasted_s.append((now_ms - entered_at_ms) // 1_000 - 1)
        now_ms += 5_000
    assert lasted_s == [10, 20, 40, 80, 80, 80]
    now_ms += 60_000
    state = next_level(state, fleet(500), CAPACITY, now_ms)
    assert state.patience_ms == 10_000


def test_patience_is_not_lost_when_the_load_rises_further():
    state = next_level(LevelState(), fleet(500), CAPACITY, 0)
    for now_ms in (1_000, 11_000):
        state = next_level(state, fleet(0), CAPACITY, now_ms)
    state = next_level(state, fleet(500), CAPACITY, 12_000)
    state = next_level(state, fleet(3_000), CAPACITY, 80_000)
    assert (state.level, state.patience_ms) == (LoadLevel.SEVERE, 20_000)


@given(st.lists(st.integers(375, 499), max_size=60))
@pytest.mark.case("B-31")
def test_inside_the_band_the_level_never_changes(waiting: list[int]):
    readings = [(count, 1_000 * second) for second, count in enumerate(waiting)]
    assert after(*readings) is LoadLevel.NORMAL
    assert after(*readings, start=LoadLevel.MILD) is LoadLevel.MILD


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_more_waiting_turns_never_give_a_lower_level(waiting: int, more: int):
    assert after((waiting + more, 0)) >= after((waiting, 0))


def test_plans_shrink_with_the_level():
    assert answer_plan(LoadLevel.NORMAL, NORMAL_PLAN, "fast") is NORMAL_PLAN
    assert answer_plan(LoadLevel.MILD, NORMAL_PLAN, "fast") == plan_of("fast")
    severe = answer_plan(LoadLevel.SEVERE, NORMAL_PLAN, "fast")
    assert severe == AnswerPlan(model="fast", max_tokens=512, history_turns=8, history_tokens=2_500)
    assert answer_plan(LoadLevel.MODERATE, NORMAL_PLAN, "fast") == severe


def test_a_plan_never_grows_with_the_level():
    small = AnswerPlan(model="primary", max_tokens=100, history_turns=2, history_tokens=50)
    assert answer_plan(LoadLevel.SEVERE, small, "fast") == AnswerPlan(
        model="fast", max_tokens=100, history_turns=2, history_tokens=50
    )
