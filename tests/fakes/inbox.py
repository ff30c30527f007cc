"""TurnInbox in memory, on a test's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.turns import QueueName
from shared.errors import DependencyUnavailable
from shared.ports import InboxMessage

_STEP_S = 0.1


@dataclass
class _Kept:
    queue: QueueName
    message_id: str
    body: str
    sent_at_ms: int
    visible_at_s: float = 0.0
    receipt: str = ""
    receives: int = 0


class FakeTurnInbox:
    """TurnInbox. `asked` holds (queue, limit, wait_s) of every receive; `error` is raised by every verb while set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: list[_Kept] = []
        self._count = 0
        self.asked: list[tuple[QueueName, int, int]] = []
        self.hidden: list[tuple[str, int]] = []
        self.error: Exception | None = None
        self.unavailable = False

    def put(self, queue: QueueName, body: str, *, sent_at_ms: int | None = None) -> None:
        """Enqueue."""
        self._count += 1
        at_ms = self._clock.now_ms() if sent_at_ms is None else sent_at_ms
        self._kept.append(_Kept(queue, f"message-{self._count}", body, at_ms))

    def bodies(self, queue: QueueName) -> list[str]:
        """Everything that was not deleted, hidden or not."""
        return [kept.body for kept in self._kept if kept.queue == queue]

    def visible(self, queue: QueueName) -> list[str]:
        """What a receive would bring now."""
        return [kept.body for kept in self._visible(queue)]

    async def receive(
        self, queue: QueueName, *, limit: int, wait_s: int, hidden_s: int
    ) -> Sequence[InboxMessage]:
        self._fail()
        self.asked.append((queue, limit, wait_s))
        give_up_at_s = self._clock.monotonic_s() + wait_s
        while not (found := self._visible(queue)[:limit]):
            left_s = give_up_at_s - self._clock.monotonic_s()
            if left_s <= 1e-9:
                return ()
            await self._clock.sleep(min(_STEP_S, left_s))
            self._fail()
        await asyncio.sleep(0)
        return tuple(self._deliver(kept, hidden_s) for kept in found)

    async def hide(self, message: InboxMessage, *, hidden_s: int) -> bool:
        self._fail()
        self.hidden.append((message.message_id, hidden_s))
        kept = self._find(message)
        if kept is None:
            return False
        kept.visible_at_s = self._clock.monotonic_s() + hidden_s
        return True

    async def delete(self, message: InboxMessage) -> None:
        self._fail()
        kept = self._find(message)
        if kept is not None:
            self._kept.remove(kept)

    def _visible(self, queue: QueueName) -> list[_Kept]:
        now_s = self._clock.monotonic_s()
        return [kept for kept in self._kept if kept.queue == queue and kept.visible_at_s <= now_s]

    def _deliver(self, kept: _Kept, hidden_s: int) -> InboxMessage:
        kept.receives += 1
        kept.receipt = f"{kept.message_id}/{kept.receives}"
        kept.visible_at_s = self._clock.monotonic_s() + hidden_s
        return InboxMessage(
            queue=kept.queue,
            message_id=kept.message_id,
            receipt=kept.receipt,
            body=kept.body,
            sent_at_ms=kept.sent_at_ms,
        )

    def _find(self, message: InboxMessage) -> _Kept | None:
        return next((kept for kept in self._kept if kept.receipt == message.receipt), None)

    def _fail(self) -> None:
        if self.unavailable:
            raise DependencyUnavailable("the fake inbox was told to be away")
        if self.error is not None:
            raise self.error
