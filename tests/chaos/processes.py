"""The processes of a stack as targets: who runs now, and which of the functions' processes is busy."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra.local.processes import Identity, start_mark
from infra.local.state import StateFile

Role = Literal["gateway", "orchestrator", "burst_worker", "valkey"]
ROLES: tuple[Role, ...] = ("gateway", "orchestrator", "burst_worker", "valkey")
_FUNCTION = re.compile(rb"AWS_LAMBDA_FUNCTION_NAME=.*burst-worker")
_WATCHED_S = 0.15


@dataclass(frozen=True)
class Target:
    """One running process; a recycled pid is never signalled."""

    role: str
    index: int
    identity: Identity
    port: int = 0

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.role} {self.index}"

    def signal(self, number: signal.Signals) -> bool:
        """Whether the process was there to receive it."""
        if not self.identity.is_alive():
            return False
        with suppress(ProcessLookupError):
            os.kill(self.identity.pid, number)
            return True
        return False


class Processes:
    """Reads `stack.json` anew at each question, for services come back under other pids."""

    def __init__(self, state_dir: Path) -> None:
        self._file = StateFile(state_dir)

    def alive(self, role: str) -> list[Target]:
        """The running processes of a role; those of the worker function, the busiest first."""
        if role == "burst_worker":
            return self._workers()
        state = self._file.read()
        assert state is not None, "the stack is gone"
        targets = [
            Target(record.role, record.index, record.identity, record.port)
            for record in state.processes
            if record.role == role
        ]
        return [target for target in targets if target.identity.is_alive()]

    def _workers(self) -> list[Target]:
        [emulator] = self.alive("aws_emulator")
        pids = [
            pid
            for pid in _children(emulator.identity.pid)
            if _is_burst_worker(pid) and _was_invoked(pid)
        ]
        before = {pid: _cpu_ticks(pid) for pid in pids}
        time.sleep(_WATCHED_S)
        pids.sort(key=lambda pid: before[pid] - _cpu_ticks(pid))
        return [
            Target("burst_worker", number, Identity(pid, start_mark(pid)))
            for number, pid in enumerate(pids)
        ]


def _children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found


def _is_burst_worker(pid: int) -> bool:
    with suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return any(_FUNCTION.fullmatch(variable) for variable in variables)
    return False


def _was_invoked(pid: int) -> bool:
    """A process that still starts has no socket. The emulator ends all others when that one fails (docs)."""
    with suppress(OSError):
        return any(
            str(entry.readlink()).startswith("socket:")
            for entry in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False


def _cpu_ticks(pid: int) -> int:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0
