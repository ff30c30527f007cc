"""SQS in memory: at least once, in any order, with visibility, maxReceiveCount and dead-letter queues."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.dead_letters import DeadLetter
from shared.contracts.turns import QueueName, TurnRequest, encode_turn
from shared.ports import InboxMessage
from tests.simulation.loop import START_MS
from tests.simulation.network import Network

OWN_VISIBILITY_S = 120.0
"""Of deferred and background, extended by their consumer."""


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
    trigger: Callable[[QueueName], None] = lambda queue: None
    waiting: dict[QueueName, list[asyncio.Future[None]]] = field(default_factory=dict)
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
            self.network.later(visible_at_s - self.network.loop.time(), self.announce, queue)

    async def keep(self, queue: QueueName, letter: DeadLetter) -> None:
        """Runs at SQS: a dead letter arrives."""
        self.letters.append(letter)

    def announce(self, queue: QueueName) -> None:
        """Something may have become visible."""
        for waiter in self.waiting.pop(queue, ()):
            if not waiter.done():
                waiter.set_result(None)
        self.trigger(queue)

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
            self.network.later(visibility_s, self.announce, queue)
            taken.append(message)
        return taken

    def find(self, message: InboxMessage) -> Message | None:
        """The message of a delivery, None once it is deleted."""
        for each in self.messages.get(message.queue, ()):
            if str(each.number) == message.message_id:
                return each
        return None

    def delete(self, message: Message) -> None:
        """Acknowledge. An old receipt may or may not work; here it does, as SQS mostly allows."""
        message.is_deleted = True
        kept = self.messages.get(message.queue, [])
        if message in kept:
            kept.remove(message)

    def release(self, message: Message, after_s: float = 0.0) -> None:
        """Make a message visible before its visibility has passed (or: deliver it a second time)."""
        if not message.is_deleted:
            message.visible_at_s = self.network.loop.time() + after_s
            self.network.later(after_s, self.announce, message.queue)

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


class Inbox:
    """TurnInbox of one process."""

    def __init__(self, queues: SimQueues, timeout_s: float = 2.0) -> None:
        self._queues = queues
        self._timeout_s = timeout_s

    async def receive(
        self, queue: QueueName, *, limit: int, wait_s: int, hidden_s: int
    ) -> Sequence[InboxMessage]:
        messages = await self._ask(self._take, queue, limit)
        if not messages and wait_s:
            network = self._queues.network
            waiter = network.loop.create_future()
            self._queues.waiting.setdefault(queue, []).append(waiter)
            alarm = network.later(wait_s, lambda: waiter.done() or waiter.set_result(None))
            await waiter
            alarm.cancel()
            messages = await self._ask(self._take, queue, limit)
        return messages

    async def hide(self, message: InboxMessage, *, hidden_s: int) -> bool:
        return bool(await self._ask(self._hide, message, hidden_s))

    async def delete(self, message: InboxMessage) -> None:
        await self._ask(self._delete, message)

    async def _ask(self, work: Callable[..., Any], *args: Any) -> Any:
        return await self._queues.network.ask(lambda: work(*args), self._timeout_s)

    async def _take(self, queue: QueueName, limit: int) -> list[InboxMessage]:
        return [delivery_of(each) for each in self._queues.receive(queue, limit)]

    async def _hide(self, message: InboxMessage, hidden_s: int) -> bool:
        held = self._queues.find(message)
        if held is None or str(held.receipt) != message.receipt:
            return False
        self._queues.release(held, hidden_s)
        return True

    async def _delete(self, message: InboxMessage) -> None:
        held = self._queues.find(message)
        if held is not None:
            self._queues.delete(held)


def delivery_of(message: Message) -> InboxMessage:
    """The message as its present consumer sees it."""
    return InboxMessage(
        queue=message.queue,
        message_id=str(message.number),
        receipt=str(message.receipt),
        body=message.body.decode(),
        sent_at_ms=START_MS,
    )


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
