"""The slots of the queue_runner: what is received, what runs, and when nothing may be received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from shared.clock import Clock
from shared.policy.receiving import Receive, ReceivePlan
from shared.ports import InboxMessage
from shared.telemetry import Log
from shared.turn.interruption import Interruption
from shared.turn.load_watch import LoadWatch

LOOK_AGAIN_S = 0.5
HAND_OVER_S = 5.0
"""The ledger and a queue are asked once each for every turn that is given up."""

_log = Log("queue_slots")


class QueueSlots:
    """Grants receives to the consumers and holds every task until it ends, so none is lost.

    A granted receive holds the slots of all messages that it may bring; so what was received always runs at once.
    Nothing is received while the ledger cannot be asked: no turn could be claimed, and each receive in vain brings
    a message closer to the dead-letter queue. `run` is a part of the process: it lets waiting consumers look again.
    """

    name = "queue_slots"

    def __init__(
        self,
        *,
        plan: ReceivePlan,
        watch: LoadWatch,
        deliver: Callable[[InboxMessage, Interruption], Awaitable[None]],
        give_back: Callable[[InboxMessage], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._watch = watch
        self._deliver = deliver
        self._give_back = give_back
        self._clock = clock
        self._changed = asyncio.Event()
        self._receiving = 0
        self._tasks: dict[asyncio.Future[None], Interruption] = {}
        self.is_closed = False
        """True while the process drains."""

    async def run(self) -> None:
        """Until cancelled: pauses end and levels change without anything that happens here."""
        while True:
            await self._clock.sleep(LOOK_AGAIN_S)
            self._wake()

    async def next_receive(self) -> Receive | None:
        """Wait until something may be received; None once closed. Each is followed by `take` or `withdraw`."""
        while not self.is_closed:
            receive = self._grant()
            if receive is not None:
                self._receiving += 1
                return receive
            await self._changed.wait()
        return None

    def take(self, receive: Receive, messages: Sequence[InboxMessage]) -> None:
        """Run what was received; once closed, give it back instead."""
        now_ms = self._clock.now_ms()
        self._plan.answered(receive, [max(0, now_ms - each.sent_at_ms) for each in messages])
        for message in messages:
            give_up = Interruption()
            work = self._give_back(message) if self.is_closed else self._deliver(message, give_up)
            task = asyncio.ensure_future(work)
            self._tasks[task] = give_up
            task.add_done_callback(self._ended)
        self._answered()

    def withdraw(self, receive: Receive) -> None:
        """The receive brought no answer."""
        self._plan.withdrawn(receive)
        self._answered()

    def close(self) -> None:
        """Receive no more."""
        self.is_closed = True
        self._wake()

    async def drain(self) -> None:
        """Return when no turn runs and no receive is open any more.

        An open receive is waited for: SQS may hand it a message until it ends, which nobody else would see for the
        length of its visibility.
        """
        while self._tasks or self._receiving:
            await self._changed.wait()

    async def cut(self) -> None:
        """Tell what still runs to give up, so that others go on at once; cancel what does not within HAND_OVER_S."""
        if not self._tasks:
            return
        _log.warning("queue.cut", turns=len(self._tasks))
        for give_up in self._tasks.values():
            give_up.interrupt()
        _, stuck = await asyncio.wait(list(self._tasks), timeout=HAND_OVER_S)
        for task in stuck:
            task.cancel()
        if stuck:
            await asyncio.wait(stuck)

    def _grant(self) -> Receive | None:
        if self._watch.failed_since_s is not None:
            return None
        return self._plan.next(
            running=len(self._tasks), level=self._watch.level, now_s=self._clock.monotonic_s()
        )

    def _answered(self) -> None:
        self._receiving -= 1
        self._wake()

    def _ended(self, task: asyncio.Future[None]) -> None:
        del self._tasks[task]
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
