"""`python -m infra.local run|up|down|status`: the stack in front, in the background, ended, described."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from infra.local import environment, status
from infra.local.credentials import load_credentials
from infra.local.errors import StackError
from infra.local.follow import LogFollower
from infra.local.processes import end_process
from infra.local.readiness import wait_until
from infra.local.stack import ROOT, Stack, own_identity
from infra.local.state import StackState, StateFile, leftovers
from shared.errors import ConfigurationError
from shared.settings import load_settings, unknown_variables

_UP_WITHIN_S = 300.0
_DOWN_WITHIN_S = 15.0


class _Interrupted(Exception):
    """Ctrl-C or SIGTERM."""


def main() -> int:
    """Run one verb; 0 when it did what was asked, 1 with one line on stderr when not."""
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    parser.add_argument("verb", choices=("run", "up", "down", "status"))
    parser.add_argument("--json", action="store_true", help="status: for programs")
    parser.add_argument("--quiet", action="store_true", help="run: do not print the logs")
    options = parser.parse_args()
    person = environment.inherited()
    try:
        _warn_of_unknown(person)
        state_dir = (ROOT / load_settings("local_stack", person).local_stack.state_dir).resolve()
        if options.verb == "run":
            return _run(person, is_quiet=options.quiet)
        if options.verb == "up":
            return _up(state_dir)
        if options.verb == "down":
            return _down(state_dir)
        return _status(state_dir, as_json=options.json)
    except (StackError, ConfigurationError) as error:
        print(f"burstchat: {error}", file=sys.stderr)
        return 1


def _warn_of_unknown(person: Mapping[str, str]) -> None:
    for name, near in unknown_variables(person).items():
        hint = f", did you mean {near}?" if near else ""
        print(f"burstchat: {name} is no setting{hint}", file=sys.stderr)


def _run(person: Mapping[str, str], *, is_quiet: bool) -> int:
    def interrupt(*_: object) -> NoReturn:
        # A second signal must not cut the stopping short: children would stay.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise _Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    follower = LogFollower(prints=not is_quiet, has_colours=sys.stdout.isatty())
    stack = Stack(person, follower)
    try:
        stack.run(own_identity(os.getpid()))
    except _Interrupted:
        print("stopped", flush=True)
    return 0


def _up(state_dir: Path) -> int:
    state_file = StateFile(state_dir)
    running = _running(state_file)
    if running is not None and running.is_ready:
        print(f"already up: {running.urls['chat']}")
        return 0
    state_dir.mkdir(parents=True, exist_ok=True)
    log = state_dir / "stack.log"
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "infra.local", "run", "--quiet"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    with log.open(errors="replace") as progress:

        def is_settled() -> bool:
            state = _running(state_file)
            settled = supervisor.poll() is not None or (state is not None and state.is_ready)
            print(progress.read(), end="", flush=True)
            return settled

        wait_until(is_settled, within_s=_UP_WITHIN_S, what=f"the stack (log: {log})")
    return 0 if supervisor.poll() is None else 1


def _running(state_file: StateFile) -> StackState | None:
    state = state_file.read()
    return state if state is not None and state.supervisor.is_alive() else None


def _down(state_dir: Path) -> int:
    state_file = StateFile(state_dir)
    state = state_file.read()
    if state is None:
        print("nothing runs from this state folder")
        return 0
    end_process(state.supervisor, _DOWN_WITHIN_S)
    for record in leftovers(state_file.read() or state):
        print(f"ending {record.role} {record.index} (pid {record.pid}) of an earlier run")
        end_process(record.identity, 2.0)
    state_file.remove()
    print("down")
    return 0


def _status(state_dir: Path, *, as_json: bool) -> int:
    state = StateFile(state_dir).read()
    if state is None:
        raise StackError("no stack runs from this state folder: `burstchat up` starts one")
    description = status.describe(state, load_credentials(state_dir))
    text = json.dumps(description, indent=2) if as_json else status.as_text(description)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever read has what they wanted. At exit Python would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
