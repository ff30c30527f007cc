"""`python -m loadtest.scenarios NAME`: one scenario against the running stack, or one started for it.

Exit code 0 when every promise held, 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from loadtest.scenarios.report import broken_promises, report
from loadtest.scenarios.runs import SCENARIOS, Knobs, Target
from loadtest.stack import start_stack, status, stop_stack

MESSAGE = "/sim tokens=150 ttft_ms=300 tokens_per_s=50"
PEOPLE = {"tenfold": 8, "threefold": 90, "kill": 8, "reconnects": 10, "flood": 2}


def main() -> int:
    """Find or start a stack, run the scenario, print its table."""
    options = _parse()
    found = status()
    is_started_here = found is None
    if found is None:
        if not start_stack():
            return 1
        found = status()
    if found is None:
        return 1
    target = Target(
        chat_url=found["urls"]["websocket"],
        origin=found["urls"]["websocket"].replace("ws", "http", 1).removesuffix("/ws"),
        orchestrator_pids=[
            process["pid"] for process in found["processes"] if process["role"] == "orchestrator"
        ],
    )
    knobs = Knobs(
        people=options.people or PEOPLE[options.name],
        hold_s=options.hold_s,
        message=options.message,
        sockets=options.sockets,
    )
    try:
        outcome = asyncio.run(SCENARIOS[options.name](target, knobs))
    finally:
        if is_started_here:
            stop_stack()
    sys.stdout.write(report(options.name, outcome) + "\n")
    return 1 if broken_promises(outcome) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m loadtest.scenarios", description=__doc__)
    parser.add_argument("name", choices=SCENARIOS)
    parser.add_argument("--people", type=int, help="users of the baseline; default by scenario")
    parser.add_argument("--hold-s", type=float, default=40, help="seconds at the peak")
    parser.add_argument("--message", default=MESSAGE, help="what each user says")
    parser.add_argument("--sockets", type=int, default=2_000, help="sockets that are lost at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
