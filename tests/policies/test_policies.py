"""The promises of load, over the real decisions in virtual time; shorter than `python -m tests.policies`."""

from __future__ import annotations

import pytest

from shared.policy.load_level import LoadLevel
from tests.policies.demand import Sale
from tests.policies.record import Record
from tests.policies.story import (
    HOUR_S,
    quiet_p99_s,
    run_beside_flood,
    run_day,
    run_floods,
    run_rush,
    token_fairness,
)

BACKGROUND_PAUSE_S = 5.0
SALE = Sale(at_s=20 * HOUR_S, lasts_s=240)


@pytest.fixture(scope="module")
def evening() -> Record:
    """The hour around a flash sale."""
    return run_day(1, from_s=SALE.at_s - 120, until_s=SALE.at_s + 900, sale=SALE)


@pytest.fixture(scope="module")
def rush() -> Record:
    """Ten minutes of more than the fleet can take."""
    return run_rush(1, lasts_s=600)


def test_every_accepted_turn_of_a_flash_sale_is_answered(evening: Record):
    assert len(evening.turns) > 5_000
    assert [turn for turn in evening.turns if turn.started_s is None] == []


def test_a_flash_sale_is_answered_by_faster_and_shorter_answers_until_it_is_over(evening: Record):
    assert LoadLevel.MODERATE in [level for _, level in evening.levels]
    assert evening.levels[-1][1] is LoadLevel.NORMAL
    answered = [(turn.started_s or 0.0, turn.model) for turn in evening.turns]
    assert {model for at_s, model in answered if at_s < SALE.at_s} == {"primary"}
    assert "fast" in {model for at_s, model in answered if at_s >= SALE.at_s}
    assert {model for at_s, model in answered if at_s > evening.levels[-1][0] + 1} == {"primary"}


def test_the_level_does_not_swing_with_what_it_does(evening: Record):
    assert len(evening.levels) <= 20


def test_waits_in_burst_are_predicted_within_thirty_percent(evening: Record):
    assert sum(turn.path == "burst" and turn.wait_s >= 1 for turn in evening.turns) >= 100
    assert evening.prediction_error() <= 0.3


@pytest.mark.case("B-31")
def test_no_interactive_turn_is_shed_while_lower_ones_are_taken(rush: Record):
    assert sum(count for (tier, _), count in rush.refusals.items() if tier == "high") > 1_000
    assert rush.inversions == 0


def test_nothing_starves_in_an_endless_rush(rush: Record):
    assert LoadLevel.SEVERE in [level for _, level in rush.levels]
    assert rush.longest_pause_s("low") <= BACKGROUND_PAUSE_S + 3
    assert rush.longest_pause_s("normal") <= 3


def test_a_flood_does_not_slow_a_quiet_tenant_down():
    alone, beside = (run_beside_flood(2, times=times, lasts_s=1_200) for times in (0, 50))
    assert quiet_p99_s(beside) <= 1.5 * quiet_p99_s(alone)


def test_floods_of_different_size_get_like_shares_of_the_tokens():
    assert token_fairness(run_floods(1, lasts_s=240)) >= 0.95
