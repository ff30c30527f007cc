"""One of the loops that receive messages."""

from __future__ import annotations

from collections.abc import Sequence

from services.orchestrator.queue_runner.slots import QueueSlots
from shared.clock import Clock, Randomness
from shared.errors import DependencyUnavailable
from shared.policy.backoff import ceiling_ms
from shared.policy.receiving import Receive
from shared.ports import InboxMessage, TurnInbox
from shared.telemetry import Log

_FIRST_WAIT_MS = 500
_LONGEST_WAIT_MS = 10_000

_log = Log("queue_consumer")


class Consumer:
    """A part of the process. It returns when the slots are closed.

    SQS that cannot be asked is asked again after a back-off; anything else that a receive raises ends this consumer,
    and with it, in order, its siblings and the process: a half-dead pool would look like a healthy one.
    """

    def __init__(
        self,
        number: int,
        *,
        slots: QueueSlots,
        inbox: TurnInbox,
        visibility_s: int,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._number = number
        self._slots = slots
        self._inbox = inbox
        self._visibility_s = visibility_s
        self._clock = clock
        self._randomness = randomness
        self._failures = 0
        self.failed_since_s: float | None = None
        """Since when (monotonic) SQS cannot be asked; None = it answered last time."""

    @property
    def name(self) -> str:
        """For the logs."""
        return f"consumer-{self._number}"

    async def run(self) -> None:
        """Receive until closed."""
        while (receive := await self._slots.next_receive()) is not None:
            messages = None
            try:
                messages = await self._receive(receive)
            finally:
                if messages is None:
                    self._slots.withdraw(receive)
            if messages is None:
                await self._clock.sleep(self._wait_s())
            else:
                self._slots.take(receive, messages)

    async def _receive(self, receive: Receive) -> Sequence[InboxMessage] | None:
        try:
            messages = await self._inbox.receive(
                receive.queue,
                limit=receive.limit,
                wait_s=receive.wait_s,
                hidden_s=self._visibility_s,
            )
        except DependencyUnavailable as error:
            self._failures += 1
            if self.failed_since_s is None:
                self.failed_since_s = self._clock.monotonic_s()
                _log.warning(
                    "queue.unavailable", queue=receive.queue, error_type=type(error).__name__
                )
            return None
        self._failures, self.failed_since_s = 0, None
        return messages

    def _wait_s(self) -> float:
        longest = ceiling_ms(_FIRST_WAIT_MS, self._failures, _LONGEST_WAIT_MS)
        return self._randomness.uniform(longest / 2, longest) / 1000
