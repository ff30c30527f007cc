"""MiniStack, the AWS emulator, as a process of its own for the tests that need queues and tables."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

REGION = "us-east-1"
KEY_ID = "test"
SECRET = "test"
_BINARY = Path(__file__).resolve().parents[2] / ".venv-emulator" / "bin" / "ministack"
_READY_WITHIN_S = 30


@dataclass(frozen=True)
class Emulator:
    """Its address, and plain boto3 clients to look at what it holds."""

    url: str

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
            config=Config(retries={"total_max_attempts": 1}),
        )

    def make_turns_table(self, name: str) -> None:
        self.client("dynamodb").create_table(
            TableName=name,
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    def make_queue(self, name: str) -> str:
        return str(self.client("sqs").create_queue(QueueName=name)["QueueUrl"])

    def messages(self, url: str) -> list[dict[str, Any]]:
        """Every visible message of a queue, taken out of it."""
        client = self.client("sqs")
        found: list[dict[str, Any]] = []
        while True:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]
            )
            batch = answer.get("Messages", [])
            if not batch:
                return found
            for message in batch:
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.extend(batch)


@contextmanager
def run_emulator(folder: Path) -> Iterator[Emulator]:
    """Start it on a free port with a scrubbed environment and stop it at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
    }
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [_BINARY], env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _await_ready(process, url)
            yield Emulator(url)
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator for all tests of this process; each test makes its own tables and queues."""
    if not _BINARY.exists():
        pytest.fail(f"{_BINARY} is missing: make setup installs it")
    with run_emulator(tmp_path_factory.mktemp("emulator")) as running:
        yield running


def _await_ready(process: subprocess.Popen[bytes], url: str) -> None:
    give_up_at = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise RuntimeError(f"the emulator ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/_ministack/health", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the emulator did not become ready")
