"""`python -m tests.simulation`: run many seeds, or tell the story of one."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.campaign import Coverage, minimise, run_campaign, seconds
from tests.simulation.plan import draw_plan
from tests.simulation.story import tell
from tests.simulation.world import run_plan

PROGRESS_EVERY = 200
STORIES = 3


def main() -> int:
    """0 when no promise was broken."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="tell the story of this one")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return _tell_one(chosen.seed)
    return _run_many(range(chosen.first, chosen.first + chosen.seeds), chosen.workers)


def _say(line: str = "") -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tell_one(seed: int) -> int:
    outcome = run_plan(draw_plan(seed))
    if outcome.history.violations:
        outcome = minimise(seed, outcome.history.violations[0].rule)
    for line in tell(outcome):
        _say(line)
    return 1 if outcome.history.violations else 0


def _run_many(seeds: range, workers: int) -> int:
    coverage, began_s = Coverage(), seconds()
    for report in run_campaign(seeds, workers):
        coverage.add(report)
        for violation in report.violations[:1]:
            _say(f"seed {report.seed} broke {violation.rule}: {violation.words[:200]}")
        if coverage.runs % PROGRESS_EVERY == 0:
            spent_s = seconds() - began_s
            _say(f"{coverage.runs:>7} runs, {len(coverage.failed)} failed, {spent_s:.0f} s")
    for line in coverage.table():
        _say(line)
    for name in coverage.missing:
        _say(f"never reached: {name}")
    for report in coverage.failed[:STORIES]:
        _say()
        for line in tell(minimise(report.seed, report.violations[0].rule)):
            _say(line)
    _say(f"{coverage.runs} runs, {len(coverage.failed)} failed")
    return 1 if coverage.failed else 0


if __name__ == "__main__":
    sys.exit(main())
