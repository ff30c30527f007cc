"""The checker bites: each bug that is put into the product on purpose is found within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import first_caught, minimise
from tests.simulation.plan import draw_plan
from tests.simulation.planted import BUGS, planted

WITHIN_SEEDS = {
    "no_fence": 150,
    "no_seq_check": 60,
    "end_before_store": 60,
    "compareless_unfollow": 200,
    "retry_after_text": 200,
    "push_before_append": 20,
    "no_sweeper": 30,
    "no_order": 20,
    "deaf_to_stop": 300,
    "no_evidence": 100,
}
RULES = {
    "no_fence": {"P4"},
    "no_seq_check": {"P2"},
    "end_before_store": {"P3", "P5"},
    "compareless_unfollow": {"P6", "P10"},
    "retry_after_text": {"P2"},
    "push_before_append": {"P4"},
    "no_sweeper": {"P1"},
    "no_order": {"P5"},
    "deaf_to_stop": {"P6"},
    "no_evidence": {"P9"},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    report = first_caught(bug, range(WITHIN_SEEDS[bug]))

    assert report is not None
    assert {violation.rule for violation in report.violations} & RULES[bug]


@pytest.mark.timeout(300)
def test_a_failing_seed_is_reduced_to_the_faults_that_matter() -> None:
    report = first_caught("no_fence", range(WITHIN_SEEDS["no_fence"]))
    assert report is not None

    with planted("no_fence"):
        outcome = minimise(report.seed, "P4")

    assert 0 < len(outcome.plan.faults) < len(draw_plan(report.seed).faults)
    assert any(violation.rule == "P4" for violation in outcome.history.violations)
