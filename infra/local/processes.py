"""Child processes: each in a process group of its own, logging to a file, and gone when we are gone."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shared.clock import SystemClock

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02
_clock = SystemClock()


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that cannot be confused with a later one of the same pid."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Whether exactly this process still runs (a zombie does not)."""
        return bool(self.started) and start_mark(self.pid) == self.started


def start_mark(pid: int) -> str:
    """When a process started, as the system tells it; "" when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return "" if sys.platform == "linux" else _start_mark_from_ps(pid)
    except OSError:
        return ""
    # The command in parentheses may hold blanks; state and start time are fields 3 and 22.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _start_mark_from_ps(pid: int) -> str:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class ChildProcess:
    """One started process and its log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> None:
        self.name = name
        self.log = log
        # Appending writers stay correct when the log is truncated below them.
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        self.identity = Identity(self._popen.pid, start_mark(self._popen.pid))

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process itself."""
        if self._popen.poll() is None:
            self._popen.terminate()

    def end(self, within_s: float) -> None:
        """Wait for the end, then kill whatever is left of its process group."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=max(0.0, within_s))
        kill_group(self._popen.pid)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=2)


def end_process(identity: Identity, within_s: float) -> None:
    """SIGTERM a process that is not our child, then kill its group when it stays."""
    if not identity.is_alive():
        return
    with suppress(ProcessLookupError):
        os.kill(identity.pid, signal.SIGTERM)
    deadline = _clock.monotonic_s() + within_s
    while identity.is_alive() and _clock.monotonic_s() < deadline:
        time.sleep(_POLL_S)
    if identity.is_alive():
        kill_group(identity.pid)


def kill_group(pid: int) -> None:
    """SIGKILL every process of the group that `pid` leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _die_with_parent() -> None:
    """Linux ends the child when this process is gone, however it went."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
