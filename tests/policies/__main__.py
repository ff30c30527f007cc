"""`python -m tests.policies`: the policies over a day in virtual time; prints the tables of docs/load.md."""

from __future__ import annotations

import argparse
import sys

from tests.policies import tables
from tests.policies.record import Record
from tests.policies.story import (
    quiet_p99_s,
    run_beside_flood,
    run_day,
    run_floods,
    run_rush,
    token_fairness,
)


def main() -> int:
    """Run every story; exit code 1 when a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.policies", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    day = run_day(seed)
    _say("### A day with a flash sale", tables.waits(day), tables.sheds(day), tables.levels(day))
    _say(f"{_share(day.prediction_error())} off: the median prediction of a wait in burst.")
    rush = run_rush(seed)
    _say("### An endless rush", tables.waits(rush), tables.sheds(rush), tables.pauses(rush))
    alone, beside = (run_beside_flood(seed, times=times) for times in (0, 50))
    floods = run_floods(seed)
    _say(
        "### Tenants",
        tables.table(
            ("first token of a quiet tenant, p99", "seconds"),
            [
                ("alone", f"{quiet_p99_s(alone):.2f}"),
                ("beside a tenant that asks for 50 times as much", f"{quiet_p99_s(beside):.2f}"),
            ],
        ),
        f"Jain's index of the tokens of three floods: {token_fairness(floods):.3f}.",
    )
    faults = _faults(day, rush, alone, beside, floods)
    _say(*(f"BROKEN: {fault}" for fault in faults))
    return 1 if faults else 0


def _faults(*records: Record) -> list[str]:
    day, rush, alone, beside, floods = records
    bounds = {
        "an interactive turn was shed while lower ones were taken": day.inversions
        + rush.inversions,
        "a tier starved": max(map(rush.longest_pause_s, ("normal", "low"))) > 10,
        "a quiet tenant pays for a flood": quiet_p99_s(beside) > 1.5 * quiet_p99_s(alone),
        "floods are not equal": token_fairness(floods) < 0.95,
        "a predicted wait is more than 30 % off": day.prediction_error() > 0.3,
        "an accepted turn did not end": sum(
            turn.started_s is None and not turn.has_expired
            for record in records
            for turn in record.turns
        ),
    }
    return [words for words, is_broken in bounds.items() if is_broken]


def _say(*parts: str) -> None:
    for part in parts:
        sys.stdout.write(part + "\n\n")


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


if __name__ == "__main__":
    sys.exit(main())
