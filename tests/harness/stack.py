"""Starts the local stack as an engineer would (`burstchat up`) and asks it what it is doing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
BURSTCHAT = ROOT / ".venv" / "bin" / "burstchat"
UP_TIMEOUT_S = 180
PORTS_PER_STACK = 40


@dataclass(frozen=True)
class Stack:
    """A running stack: where it listens and how to look inside."""

    port_base: int
    state_dir: Path
    environment: dict[str, str]

    @property
    def chat_url(self) -> str:
        """WebSocket address of gateway 0."""
        return f"ws://127.0.0.1:{self.port_base}/ws"

    @property
    def http_url(self) -> str:
        """Public HTTP address of gateway 0."""
        return f"http://127.0.0.1:{self.port_base}"

    @property
    def overflow_path(self) -> str:
        """Who runs what the inline slots cannot take: the function, or the queue_runner without one."""
        consumer = self.environment.get("BURSTCHAT_BURST_CONSUMER", "lambda")
        return "burst" if consumer == "lambda" else "queue"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the `burstchat` command against this stack."""
        return subprocess.run(
            [str(BURSTCHAT), *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=UP_TIMEOUT_S,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        """What `burstchat status --json` prints."""
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def aws(self, service: str, config: Config | None = None) -> Any:
        """A boto3 client of the stack's AWS emulator."""
        return boto3.client(
            service,
            config=config,
            endpoint_url=f"http://127.0.0.1:{self.port_base + 4}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def model_calls(self, call_id: str) -> list[dict[str, Any]]:
        """What the model server saw of the calls with this `/sim id=`."""
        query = urllib.parse.urlencode({"id": call_id})
        url = f"http://127.0.0.1:{self.port_base + 3}/sim/calls?{query}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["calls"]

    def stored_turns(self, turn_id: str) -> list[dict[str, Any]]:
        """The turns that items of the `turns` table with this turn id hold."""
        table = self.status()["tables"]["turns"]
        items: list[dict[str, Any]] = []
        for page in self.aws("dynamodb").get_paginator("scan").paginate(TableName=table):
            items += [
                json.loads(item["turn"]["S"])
                for item in page["Items"]
                if item["sk"]["S"] == turn_id
            ]
        return items

    @contextmanager
    def trigger_disabled(self, queue: str) -> Iterator[None]:
        """Nobody drains the queue meanwhile, as when the trigger is throttled or switched off.

        Without a function that is the queue_runner, which then stands still.
        """
        if self.overflow_path == "queue":
            with self._paused("queue_runner"):
                yield
            return
        functions = self.aws("lambda")
        [mapping] = [
            found
            for found in functions.list_event_source_mappings()["EventSourceMappings"]
            if found["EventSourceArn"].endswith(f"-{queue}")
        ]
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        try:
            yield
        finally:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)

    @contextmanager
    def _paused(self, role: str) -> Iterator[None]:
        pids = [each["pid"] for each in self.status()["processes"] if each["role"] == role]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def function_log(self, function: str) -> str:
        """Everything a deployed function has logged."""
        logs = self.aws("logs")
        lines: list[str] = []
        group = next(
            name["logGroupName"]
            for name in logs.describe_log_groups()["logGroups"]
            if function in name["logGroupName"]
        )
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
            lines += [event["message"] for event in page["events"]]
        return "\n".join(lines)

    def overflow_log(self) -> str:
        """Everything that the consumer of the burst queue has logged."""
        if self.overflow_path == "burst":
            return self.function_log("burst-worker")
        return (self.state_dir / "logs" / "queue_runner-0.log").read_text()


def free_port_base() -> int:
    """A base whose whole range is free right now."""
    for base in range(20_000, 32_000, PORTS_PER_STACK):
        if all(_is_free(base + offset) for offset in range(PORTS_PER_STACK)):
            return base
    raise AssertionError("no free range of ports")


@contextmanager
def running_stack(state_dir: Path, **knobs: str | int) -> Iterator[Stack]:
    """Bring a stack up with `BURSTCHAT_` knobs, and down again."""
    base = free_port_base()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment.pop("ANTHROPIC_API_KEY", None)
    environment |= {
        "BURSTCHAT_PORT_BASE": str(base),
        "BURSTCHAT_STATE_DIR": str(state_dir),
        **{f"BURSTCHAT_{name.upper()}": str(value) for name, value in knobs.items()},
    }
    stack = Stack(base, state_dir, environment)
    try:
        up = stack.run("up")
        assert up.returncode == 0, f"burstchat up failed:\n{up.stdout}\n{up.stderr}"
        yield stack
    finally:
        down = stack.run("down")
        assert down.returncode == 0, f"burstchat down failed:\n{down.stdout}\n{down.stderr}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0
