import os

import msgspec
import pytest

from infra.local.errors import StackError
from infra.local.processes import Identity, start_mark
from infra.local.state import ProcessRecord, StackState, StateFile, leftovers


def record(pid, started):
    return ProcessRecord(
        role="gateway", index=0, pid=pid, started=started, port=1, health_path="/readyz"
    )


def test_a_state_is_read_as_it_was_written(tmp_path):
    state_file = StateFile(tmp_path)
    assert state_file.read() is None
    state = StackState(
        supervisor_pid=1, supervisor_started="x", processes=(record(2, "y"),), urls={"chat": "u"}
    )
    state_file.write(state)
    assert state_file.read() == state
    state_file.remove()
    assert state_file.read() is None


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(StackError, match="is damaged"):
        StateFile(tmp_path).read()


def test_a_second_stack_of_one_folder_is_refused(tmp_path):
    with (
        StateFile(tmp_path).held(),
        pytest.raises(StackError, match="already runs"),
        StateFile(tmp_path).held(),
    ):
        pass


def test_a_recycled_pid_is_not_taken_for_the_old_process():
    own = Identity(os.getpid(), start_mark(os.getpid()))
    assert own.is_alive()
    assert not msgspec.structs.replace(record(own.pid, "other")).identity.is_alive()
    state = StackState(
        supervisor_pid=1,
        supervisor_started="",
        processes=(record(own.pid, "other"), record(own.pid, own.started)),
    )
    assert leftovers(state) == [state.processes[1]]
    assert not state.supervisor.is_alive()
