"""SQS in memory: at least once, in any order, with visibility, maxReceiveCount and dead-letter queues."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.contracts.dead_letters import DeadLetter
from shared.contracts.turns import QueueName, TurnRequest, encode_turn
from tests.simulation.network import Network

OWN_VISIBILITY_S = 60.0
"""Of deferred and background; not extended here, so that a long turn is delivered twice."""


@dataclass
class Message:
    """One message; `visible_at_s` moves on with each receive."""

    number: int
    queue: QueueName
    body: bytes
    turn_id: str
    visible_at_s: float
    received: int = 0
    receipt: int = 0
    is_deleted: bool = False


@dataclass
class SimQueues:
    """TurnQueue and DeadLetterQueue of every process, and the receiving side for consumers."""

    network: Network
    chance: random.Random
    visibility_s: float
    max_receive_count: int = 5
    messages: dict[QueueName, list[Message]] = field(default_factory=dict)
    letters: list[DeadLetter] = field(default_factory=list)
    moved: list[Message] = field(default_factory=list)
    """Plain messages that were received too often."""
    on_message: Callable[[QueueName], None] = lambda queue: None
    sent: int = 0

    # senders -------------------------------------------------------------------------------------

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        """Runs at SQS. A repeat is a second message: consumers must not care."""
        for _ in range(2 if self.network.is_doubled() else 1):
            self.sent += 1
            wander_s = self.chance.random() * 0.05 + self.network.latency_s()
            visible_at_s = self.network.loop.time() + delay_s + wander_s
            message = Message(self.sent, queue, encode_turn(request), request.turn_id, visible_at_s)
            self.messages.setdefault(queue, []).append(message)
            self.network.later(visible_at_s - self.network.loop.time(), self.on_message, queue)

    async def keep(self, queue: QueueName, letter: DeadLetter) -> None:
        """Runs at SQS: a dead letter arrives."""
        self.letters.append(letter)

    # consumers -----------------------------------------------------------------------------------

    def receive(self, queue: QueueName, limit: int) -> list[Message]:
        """Up to `limit` visible messages, in no particular order."""
        now_s = self.network.loop.time()
        visible = [each for each in self.messages.get(queue, ()) if each.visible_at_s <= now_s]
        self.chance.shuffle(visible)
        taken = []
        for message in visible[:limit]:
            if message.received >= self.max_receive_count:
                self.messages[queue].remove(message)
                self.moved.append(message)
                continue
            message.received += 1
            message.receipt += 1
            visibility_s = self.visibility_s if queue in ("burst", "retry") else OWN_VISIBILITY_S
            message.visible_at_s = now_s + visibility_s
            self.network.later(visibility_s, self.on_message, queue)
            taken.append(message)
        return taken

    def delete(self, message: Message, receipt: int) -> None:
        """Acknowledge. An old receipt may or may not work; here it does, as SQS mostly allows."""
        message.is_deleted = True
        kept = self.messages.get(message.queue, [])
        if message in kept:
            kept.remove(message)

    def release(self, message: Message) -> None:
        """Give a message back before its visibility has passed (or: deliver it a second time)."""
        if not message.is_deleted:
            message.visible_at_s = self.network.loop.time()
            self.network.later(0, self.on_message, message.queue)

    def redeliver(self) -> bool:
        """A message in flight becomes visible although its consumer lives: at least once."""
        now_s = self.network.loop.time()
        flying = [
            each
            for queue in self.messages.values()
            for each in queue
            if each.visible_at_s > now_s and each.received
        ]
        if not flying:
            return False
        self.release(self.chance.choice(flying))
        return True


class QueueClient:
    """TurnQueue and DeadLetterQueue of one process."""

    def __init__(self, queues: SimQueues, timeout_s: float = 2.0) -> None:
        self._queues = queues
        self._timeout_s = timeout_s
        self.dead_letters = _DeadLetters(queues, timeout_s)

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        await self._queues.network.ask(
            lambda: self._queues.send(queue, request, delay_s=delay_s), self._timeout_s
        )


class _DeadLetters:
    def __init__(self, queues: SimQueues, timeout_s: float) -> None:
        self._queues = queues
        self._timeout_s = timeout_s

    async def send(self, queue: QueueName, letter: DeadLetter) -> None:
        await self._queues.network.ask(lambda: self._queues.keep(queue, letter), self._timeout_s)
