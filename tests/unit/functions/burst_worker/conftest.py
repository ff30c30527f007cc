from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.inbox import FakeTurnInbox
from tests.fakes.queues import FakeDeadLetterQueue, FakeTurnQueue

EVENTS = Path(__file__).parents[3] / "events"


@pytest.fixture(scope="session")
def _events() -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in EVENTS.glob("sqs_*.json")}


@pytest.fixture
def event(_events):
    return lambda name="sqs_batch": copy.deepcopy(_events[name])


class Outlet:
    """What a batch sends to and hides in."""

    def __init__(self) -> None:
        self.queue = FakeTurnQueue()
        self.dead_letters = FakeDeadLetterQueue()
        self.inbox = FakeTurnInbox(FakeClock())

    def break_down(self) -> None:
        """No queue takes anything any more."""
        self.queue.unavailable = True
        self.dead_letters.failing = 99


@pytest.fixture
def outlet() -> Outlet:
    return Outlet()
