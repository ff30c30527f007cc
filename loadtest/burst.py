"""`make burst`: ten times the traffic within ten seconds, against the running stack or one started for it.

Exit code 0 when turns overflowed and every accepted turn ended whole, 1 otherwise.
"""

from __future__ import annotations

from locust.env import Environment  # isort: skip - patches the standard library for gevent first

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

import gevent

from loadtest.locustfile import TenfoldBurst
from loadtest.observed_turn import ObservedTurn
from loadtest.shape import Burst
from loadtest.stack import chat_url, start_stack, stop_stack
from loadtest.summary import faults_of, summarise
from loadtest.user import TURN_TIMEOUT_S, ChatUser


def main(arguments: Sequence[str] | None = None) -> int:
    """Find or start a stack, run the burst, print the table."""
    options = _parse(arguments)
    burst = Burst(baseline_users=options.users, factor=options.factor, hold_s=options.hold_s)
    ChatUser.message = options.message
    ChatUser.turns.clear()
    url = options.url or chat_url()
    is_started_here = url is None
    try:
        if url is None and start_stack():
            url = chat_url()
        if url is None:
            return 1
        _run(url, burst)
    except KeyboardInterrupt:
        print("\nburst    interrupted; so far:")
    finally:
        if is_started_here:
            stop_stack()
    turns = list(ChatUser.turns)
    print(summarise(turns, burst.length_s))
    overflowed = any(turn.path == "burst" for turn in turns)
    return 0 if overflowed and not faults_of(turns) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make burst", description=__doc__)
    parser.add_argument("--url", help="WebSocket address; default: the local stack's")
    parser.add_argument("--users", type=int, default=4, help="users of the baseline")
    parser.add_argument("--factor", type=int, default=10, help="how many times the baseline")
    parser.add_argument("--hold-s", type=float, default=20, help="seconds at the peak")
    parser.add_argument("--message", default=ChatUser.message, help="what each user says")
    return parser.parse_args(arguments)


def _run(url: str, burst: Burst) -> None:
    print(
        f"burst    {burst.baseline_users} users, then {burst.baseline_users * burst.factor} "
        f"within {burst.ramp_s:.0f} s, against {url}",
        flush=True,
    )
    TenfoldBurst.burst = burst
    environment = Environment(user_classes=[ChatUser], shape_class=TenfoldBurst(), host=url)
    environment.stop_timeout = TURN_TIMEOUT_S  # running turns are read to their end
    runner = environment.create_local_runner()
    runner.start_shape()
    started_s = time.perf_counter()
    try:
        while runner.state not in ("stopped", "cleanup") or runner.user_count:
            gevent.sleep(1)
            _print_progress(time.perf_counter() - started_s, runner.user_count, ChatUser.turns)
            if time.perf_counter() - started_s > burst.length_s + TURN_TIMEOUT_S:
                break
    finally:
        runner.quit()


def _print_progress(elapsed_s: float, users: int, turns: Sequence[ObservedTurn]) -> None:
    ended = Counter(turn.path for turn in turns if turn.is_ended)
    running = sum(not turn.is_ended for turn in turns)
    line = (
        f"burst    {elapsed_s:4.0f} s  users {users:3d}  in flight {running:3d}  "
        f"inline {ended['inline']:4d}  burst {ended['burst']:4d}"
    )
    if sys.stdout.isatty():
        print(f"\r{line}", end="", flush=True)
    elif round(elapsed_s) % 5 == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
