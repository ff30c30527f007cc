"""`make chaos`: real processes, real faults, real users; exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.abandoned import leave_turns_alone
from tests.chaos.drain import SOCKETS, measure_drain
from tests.chaos.readying import FLEET, ROOMY_FLEET, warm_workers
from tests.chaos.report import Results, table
from tests.chaos.resume import measure_resumes
from tests.chaos.storm import Storm, run_storm
from tests.chaos.takeover import Takeovers, measure_takeovers
from tests.harness.stack import Stack, running_stack

PARTS = ("storm", "abandoned", "takeovers", "resume", "drain")
WORKERS = 12
"""As many processes of the worker function as the burst and the retry trigger use together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a stack of its own, run the parts, print the table, stop the stack."""
    options = _parse(arguments)
    seed = options.seed if options.seed is not None else random.randrange(10_000)
    say(f"seed {seed}, parts {', '.join(options.parts)}, load {_load()}")
    folder = Path(tempfile.mkdtemp(prefix="burstchat-chaos-"))
    results = Results()
    try:
        if set(options.parts) - {"drain"}:
            with running_stack(folder / "faults", **FLEET) as stack, _kept(folder / "faults"):
                asyncio.run(_run(stack, options, seed, results))
        if "drain" in options.parts:
            with running_stack(folder / "drain", **ROOMY_FLEET) as stack, _kept(folder / "drain"):
                asyncio.run(_drain(stack, options, seed, results))
    except BaseException:
        say(f"the run broke off; logs: {folder}\n")
        sys.stdout.write(table(results) + "\n")
        raise
    say(f"load {_load()}\n")
    sys.stdout.write(table(results) + "\n")
    if results.faults():
        say(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """A stack takes its logs with it; keep a copy."""
    try:
        yield
    finally:
        shutil.copytree(folder / "logs", folder / "kept")


async def _run(stack: Stack, options: argparse.Namespace, seed: int, results: Results) -> None:
    _stop_in_order()
    if {"storm", "takeovers"} & set(options.parts):
        say("starting worker processes")
        took_s = await warm_workers(stack, WORKERS)
        say(f"{WORKERS} worker processes are warm after {took_s:.0f} s")
    if "storm" in options.parts:
        storm = Storm(options.users, options.rounds, options.every_s, seed)
        results.storm = await run_storm(stack, storm, say)
        say(f"{results.storm.audit.turns} turns, {len(results.faults())} broken promises")
    if "abandoned" in options.parts:
        say("killing gateways and orchestrators together, and leaving")
        results.abandoned = await leave_turns_alone(stack, seed)
    if "takeovers" in options.parts:
        await warm_workers(stack, WORKERS)
        say(f"measuring takeovers over {options.kills} kills, load {_load()}")
        results.takeovers = Takeovers()
        await measure_takeovers(stack, options.kills, seed, results.takeovers, say)
    if "resume" in options.parts:
        say(f"measuring resumes, load {_load()}")
        results.resumes_ms, results.resumed_frames = await measure_resumes(stack, seed)


async def _drain(stack: Stack, options: argparse.Namespace, seed: int, results: Results) -> None:
    _stop_in_order()
    say(f"draining {options.sockets} sockets, load {_load()}")
    results.drained = await measure_drain(stack, seed, options.sockets)


def _stop_in_order() -> None:
    """SIGTERM ends the run as an error does, so that the stack is stopped."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def say(words: str) -> None:
    """Progress, at once."""
    sys.stdout.write(f"chaos    {words}\n")
    sys.stdout.flush()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5, help="each kind of fault, so many times")
    parser.add_argument("--every-s", type=float, default=3.0, help="seconds between faults")
    parser.add_argument("--kills", type=int, default=200, help="to measure takeovers")
    parser.add_argument("--sockets", type=int, default=SOCKETS)
    parser.add_argument("--seed", type=int, help="of faults and messages; default: any")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
