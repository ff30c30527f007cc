"""Real processes: they die with their parent, stop when asked, and hold ports by name."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from infra.local.errors import StackError
from infra.local.plan import PlannedProcess
from infra.local.ports import holder_of, require_free
from infra.local.processes import ChildProcess, Identity, end_process, start_mark
from infra.local.readiness import is_healthy, wait_healthy

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def start(tmp_path, command=SLEEPER):
    return ChildProcess(
        "child", command, environment={"PATH": "/bin"}, folder=tmp_path, log=tmp_path / "child.log"
    )


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_child_leads_its_own_group_and_logs_to_its_file(tmp_path):
    child = start(tmp_path)
    wait_until(lambda: child.log.read_text() == "up\n")
    assert os.getpgid(child.identity.pid) == child.identity.pid != os.getpgrp()
    assert child.exit_code() is None
    child.ask_to_stop()
    child.end(within_s=5)
    assert child.exit_code() == -signal.SIGTERM
    assert not child.identity.is_alive()


def test_what_ignores_the_request_is_killed_with_its_group(tmp_path):
    stubborn = [
        sys.executable,
        "-c",
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(inner.pid, flush=True)\n"
        "time.sleep(600)\n",
    ]
    child = start(tmp_path, stubborn)
    wait_until(lambda: child.log.read_text().strip())
    inner = int(child.log.read_text())
    child.ask_to_stop()
    child.end(within_s=0.1)
    wait_until(lambda: start_mark(inner) == "")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path):
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom pathlib import Path\n"
            "from infra.local.processes import ChildProcess\n"
            f"folder = Path({str(tmp_path)!r})\n"
            f"child = ChildProcess('c', {SLEEPER!r}, environment={{}}, folder=folder, "
            "log=folder / 'c.log')\n"
            "print(child.identity.pid, flush=True)\n"
            "time.sleep(600)\n",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        assert start_mark(child_pid)
        parent.kill()
    wait_until(lambda: start_mark(child_pid) == "")


def test_a_foreign_process_is_ended_only_when_it_is_the_same_one(tmp_path):
    child = start(tmp_path)
    end_process(Identity(child.identity.pid, "another start"), within_s=1)
    assert child.identity.is_alive()
    end_process(child.identity, within_s=5)
    wait_until(lambda: child.exit_code() is not None)


def test_a_port_in_use_names_its_holder_and_the_setting():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        planned = PlannedProcess("gateway", 0, port, "/readyz")
        with pytest.raises(StackError, match=f"port {port} .gateway 0. is in use by .*PORT_BASE"):
            require_free([planned], 8080)
        if sys.platform == "linux":
            assert f"(pid {os.getpid()})" in holder_of(port)
        assert not is_healthy(port, "")
    require_free([planned], 8080)


def test_waiting_for_a_dead_process_ends_with_its_own_error():
    def check_alive():
        raise StackError("gateway-0 ended with code 1")

    with pytest.raises(StackError, match="ended with code 1"):
        wait_healthy("gateway-0", 1, "/readyz", within_s=60, check_alive=check_alive)


def test_waiting_is_bounded_and_says_what_is_missing():
    with pytest.raises(StackError, match="port 1 does not answer"):
        wait_healthy("gateway-0", 1, "/readyz", within_s=0, check_alive=lambda: None)
