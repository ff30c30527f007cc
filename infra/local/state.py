"""What one stack writes down about itself, so that `status` and `down` find it again."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from infra.local.errors import StackError
from infra.local.processes import Identity


class ProcessRecord(msgspec.Struct, frozen=True):
    """One started process."""

    role: str
    index: int
    pid: int
    started: str
    port: int
    health_path: str

    @property
    def identity(self) -> Identity:
        """Safe to signal: a recycled pid does not match."""
        return Identity(self.pid, self.started)


class StackState(msgspec.Struct, frozen=True, kw_only=True):
    """The running stack; `is_ready` once every process answers."""

    supervisor_pid: int
    supervisor_started: str
    is_ready: bool = False
    processes: tuple[ProcessRecord, ...] = ()
    urls: dict[str, str] = {}
    queues: dict[str, str] = {}  # name → URL
    tables: dict[str, str] = {}
    buckets: dict[str, str] = {}

    @property
    def supervisor(self) -> Identity:
        """The process that started all others."""
        return Identity(self.supervisor_pid, self.supervisor_started)


class StateFile:
    """`stack.json` in the state folder; written whole, so a reader never sees half of it."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "stack.json"
        self._lock = state_dir / "stack.lock"

    def read(self) -> StackState | None:
        """None when no stack was started here, or it was ended in order."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=StackState)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise StackError(f"{self._path} is damaged ({error}): remove it") from error

    def write(self, state: StackState) -> None:
        """Replace the file."""
        draft = self._path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(state))
        draft.replace(self._path)

    def remove(self) -> None:
        """Forget the stack."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only one stack per state folder; raises StackError when another holds it."""
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                state = self.read()
                who = f" (pid {state.supervisor_pid})" if state else ""
                raise StackError(
                    f"a stack already runs from {self._path.parent}{who}: `burstchat down` ends it, "
                    "BURSTCHAT_STATE_DIR and BURSTCHAT_PORT_BASE start another beside it"
                ) from error
            yield


def leftovers(state: StackState) -> list[ProcessRecord]:
    """Processes of a stack whose supervisor is gone."""
    return [record for record in state.processes if record.identity.is_alive()]
