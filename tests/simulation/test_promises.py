"""The promises of DESIGN §4 under every fault of the simulator. `python -m tests.simulation --seed N` tells a story."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.simulation.campaign import FAULTS, Coverage, run_campaign
from tests.simulation.plan import Fault, Plan, draw_plan
from tests.simulation.story import tell
from tests.simulation.world import run_plan

SEEDS = 2_000
TAKEOVER_LIMIT_S = 6.0


@pytest.mark.timeout(900)
def test_every_promise_holds_whatever_goes_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    coverage = Coverage()
    for report in run_campaign(range(SEEDS)):
        coverage.add(report)

    with capsys.disabled():
        sys.stdout.write("\n".join(("", *coverage.table(), "")))
    broken = {report.seed: report.violations[0] for report in coverage.failed}
    assert not broken
    assert not coverage.missing
    rare = {name for name in FAULTS if coverage.seen[name] < SEEDS / 20}
    assert not rare


@pytest.mark.timeout(300)
def test_a_dead_producer_is_replaced_within_six_seconds() -> None:
    takeovers = Coverage()
    for seed in range(100):
        outcome = run_plan(_with_one_kill(draw_plan(seed)))
        assert not outcome.history.violations
        takeovers.takeovers_s += outcome.history.takeovers_s

    assert len(takeovers.takeovers_s) > 20
    assert takeovers.takeover_p99_s < TAKEOVER_LIMIT_S


def test_a_seed_is_the_same_story_every_time() -> None:
    for seed in (3, 93, 1188):
        first, second = run_plan(draw_plan(seed)), run_plan(draw_plan(seed))

        assert list(tell(first)) == list(tell(second))


def _with_one_kill(plan: Plan) -> Plan:
    """The plan with room for takeovers and no fault but the death of a process in the middle of an answer."""
    asked_at_s = max(action.at_s for action in plan.actions if action.what == "send")
    victim = ("orchestrator-1", "orchestrator-2")[plan.seed % 2]
    kill = Fault(1, "kill", asked_at_s + 0.5, 3.0, victim)
    sizes = replace(plan.sizes, slots=4, waiting_in_burst=50)
    return replace(plan, faults=[kill], sizes=sizes, environments=3)
