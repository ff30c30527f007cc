"""The stack as a thing of its own: what it says about itself, what it refuses, how it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from infra.local.processes import start_mark
from tests.harness.stack import BURSTCHAT, Stack, running_stack

ROLES = {"gateway", "orchestrator", "queue_runner", "model_server", "aws_emulator", "valkey"}
QUEUES = {"burst", "retry", "deferred", "background"}


def test_status_lists_every_process_queue_and_table(stack: Stack):
    status = stack.status()
    assert {process["role"] for process in status["processes"]} == ROLES
    assert {process["health"] for process in status["processes"]} == {"ok"}
    assert set(status["queues"]) == QUEUES | {f"{queue}_dlq" for queue in QUEUES}
    assert set(status["tables"]) == {"turns", "dead_turns"}
    for depth in status["queues"].values():
        assert depth["visible"] >= 0
        assert depth["in_flight"] >= 0
    assert status["urls"]["websocket"] == stack.chat_url
    ports = {process["port"] - stack.port_base for process in status["processes"]}
    assert ports == {0, 2, 3, 4, 5, 6}


def test_the_credential_is_printed_for_programs_only(stack: Stack):
    credential = stack.status()["push_credential"]
    secret = credential["BURSTCHAT_PUSH_SECRET_ACCESS_KEY"]
    assert credential["BURSTCHAT_PUSH_ACCESS_KEY_ID"]
    assert secret
    assert secret not in stack.run("status").stdout


def test_the_production_templates_are_deployed_with_the_local_concurrency(stack: Stack):
    triggers = {
        trigger["EventSourceArn"].rpartition(":")[2]: trigger
        for trigger in stack.aws("lambda").list_event_source_mappings()["EventSourceMappings"]
    }
    if stack.overflow_path == "queue":
        assert not {"burstchat-burst", "burstchat-retry"} & set(triggers)
        return
    burst, retry = triggers["burstchat-burst"], triggers["burstchat-retry"]
    assert (burst["BatchSize"], retry["BatchSize"]) == (10, 1)
    assert burst["ScalingConfig"] == {"MaximumConcurrency": 2}
    assert retry["ScalingConfig"] == {"MaximumConcurrency": 3}
    for trigger in (burst, retry):
        assert trigger["FunctionArn"].endswith(":live")
        assert trigger["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_a_reader_of_the_status_may_leave_early(stack: Stack):
    """`burstchat status | head -1`: no complaint about the pipe that nobody reads any more."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [BURSTCHAT, "status"],
            env=stack.environment,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_up_again_finds_the_running_stack(stack: Stack):
    again = stack.run("up")
    assert again.returncode == 0
    assert again.stdout.startswith("already up")


def test_a_second_stack_in_the_same_folder_is_refused_in_one_line(stack: Stack):
    second = stack.run("run")
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert "a stack already runs from" in second.stderr


def test_a_second_stack_on_the_same_ports_is_refused_in_one_line(stack: Stack, tmp_path):
    environment = {**stack.environment, "BURSTCHAT_STATE_DIR": str(tmp_path)}
    second = Stack(stack.port_base, tmp_path, environment).run("run")
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert "is in use by" in second.stderr
    assert "BURSTCHAT_PORT_BASE" in second.stderr


@pytest.mark.timeout(300)
def test_a_killed_supervisor_takes_every_process_with_it(tmp_path):
    with running_stack(tmp_path) as stack:
        pids = [process["pid"] for process in stack.status()["processes"]]
        supervisor = int(
            next(line for line in _parents(pids[0]) if line.startswith("PPid:")).split()[1]
        )
        os.kill(supervisor, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(start_mark(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert {process["health"] for process in stack.status()["processes"]} == {"dead"}
        told = stack.run("status").stdout
        assert "None" not in told
        assert told.rstrip().endswith("`burstchat down` clears what is left.")
        assert stack.run("down").returncode == 0
        assert stack.run("status").returncode == 1


def _parents(pid: int) -> list[str]:
    with open(f"/proc/{pid}/status") as status:
        return status.read().splitlines()
