"""Queues of work, dead letters and dispatches, in memory."""

from __future__ import annotations

import asyncio

from shared.contracts.dead_letters import DeadLetter
from shared.contracts.turns import QueueName, TurnRequest
from shared.errors import ConfigurationError, DependencyUnavailable


class FakeTurnQueue:
    """TurnQueue. `sent` holds (queue, request, delay_s).

    `unavailable` raises as if nobody answered, `refusing` as if the queue's policy forbade the call. A send waits while
    `gate` is clear.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.sent: list[tuple[QueueName, TurnRequest, int]] = []
        self.unavailable = False
        self.refusing = False

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        await self.gate.wait()
        if self.unavailable:
            raise DependencyUnavailable("the fake queue was told to be away")
        if self.refusing:
            raise ConfigurationError("the fake queue was told to refuse")
        self.sent.append((queue, request, delay_s))


class FakeDeadLetterQueue:
    """DeadLetterQueue. `letters` holds (queue, letter), `sends` counts the calls.

    `failing` counts down sends that raise as if nobody answered; `refusing` raises as if the queue's policy forbade it.
    """

    def __init__(self) -> None:
        self.letters: list[tuple[QueueName, DeadLetter]] = []
        self.sends = 0
        self.failing = 0
        self.refusing = False

    async def send(self, queue: QueueName, letter: DeadLetter) -> None:
        self.sends += 1
        if self.refusing:
            raise ConfigurationError("the fake dead-letter queue was told to refuse")
        if self.failing:
            self.failing -= 1
            raise DependencyUnavailable("the fake dead-letter queue was told to be away")
        self.letters.append((queue, letter))


class FakeDispatcher:
    """TurnDispatcher. `dispatched` holds the heads."""

    def __init__(self) -> None:
        self.dispatched: list[TurnRequest] = []

    async def dispatch(self, request: TurnRequest) -> None:
        self.dispatched.append(request)
