from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path

import pytest

from shared.contracts.dead_letters import DeadLetter
from shared.contracts.turns import QueueName, TurnRequest
from shared.errors import DependencyUnavailable

EVENTS = Path(__file__).parents[3] / "events"


@pytest.fixture(scope="session")
def _events() -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in EVENTS.glob("sqs_*.json")}


@pytest.fixture
def event(_events):
    return lambda name="sqs_batch": copy.deepcopy(_events[name])


class Outlet:
    """Stands for a queue port; keeps what was sent, or fails."""

    def __init__(self) -> None:
        self.available = True
        self.turns: list[tuple[QueueName, TurnRequest, int]] = []
        self.letters: list[tuple[QueueName, DeadLetter]] = []
        self.queue = _Sender(self, self.turns)
        self.dead_letters = _Sender(self, self.letters)


class _Sender:
    def __init__(self, outlet: Outlet, sent: list) -> None:
        self._outlet = outlet
        self._sent = sent

    async def send(self, queue: QueueName, item, **options) -> None:
        await asyncio.sleep(0)
        if not self._outlet.available:
            raise DependencyUnavailable("queue")
        self._sent.append((queue, item, *options.values()))


@pytest.fixture
def outlet() -> Outlet:
    return Outlet()
