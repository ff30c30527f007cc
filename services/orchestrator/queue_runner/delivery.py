"""One queue message from its receipt to its acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from shared.clock import Clock
from shared.contracts.turns import QueueName, TurnRequest, decode_turn
from shared.errors import ChatError, MalformedMessage, PermanentError, UnsupportedTurn
from shared.policy.routing import has_own_queue
from shared.ports import DeadLetterQueue, InboxMessage, TurnInbox, TurnQueue
from shared.telemetry import Log, Metrics, bind
from shared.turn.evidence import malformed_letter
from shared.turn.interruption import Interruption
from shared.turn.result import TurnResult

_log = Log("queue_delivery")


class Delivery:
    """Runs the turn of a message while keeping the message hidden.

    Deleted when the turn ended, when its claim was refused (somebody else answers for it; a turn that is not head is
    sent to its queue again by the finisher), or when it is kept as a dead letter. Otherwise it comes back after
    `visibility_s`, and after too many receives SQS moves it to the dead-letter queue. A turn that is told to give up
    is handed over: its next attempt is sent, which counts no receive, then the message is deleted.
    """

    def __init__(
        self,
        *,
        run: Callable[[TurnRequest, Interruption], Awaitable[TurnResult]],
        queue: TurnQueue,
        inbox: TurnInbox,
        dead_letters: DeadLetterQueue,
        visibility_s: int,
        extend_s: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._run = run
        self._queue = queue
        self._inbox = inbox
        self._dead_letters = dead_letters
        self._visibility_s = visibility_s
        self._extend_s = extend_s
        self._clock = clock
        self._metrics = metrics

    async def deliver(self, message: InboxMessage, give_up: Interruption) -> None:
        """Settle the message; raises nothing. Interrupted, it hands the turn over; cancelled, it gives up its claim
        and the message at once."""
        with bind(queue=message.queue, sqs_message_id=message.message_id):
            try:
                if await self._settle(message, give_up):
                    await self._inbox.delete(message)
            except asyncio.CancelledError:
                await self.give_back(message)
                raise
            except ChatError as error:
                # It comes back, and whoever receives it finds the turn ended.
                _log.warning("message.not_deleted", error_type=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - one turn's bug must not end the process
                _log.exception("turn.crashed", error)

    async def give_back(self, message: InboxMessage) -> None:
        """Make the message visible to others now; when that fails it comes back after its visibility."""
        try:
            await self._inbox.hide(message, hidden_s=0)
        except ChatError as error:
            _log.warning("message.not_given_back", error_type=type(error).__name__)
        else:
            _log.info("message.given_back")

    async def _settle(self, message: InboxMessage, give_up: Interruption) -> bool:
        try:
            request = decode_turn(message.body.encode("utf-8", "surrogatepass"))
        except (MalformedMessage, UnsupportedTurn) as error:
            return await self._keep_malformed(message, error)
        with bind(turn_id=request.turn_id, session_id=request.session_id):
            async with self._hidden(message):
                result = await self._run(request, give_up)
            self._metrics.count("QueueTurns", queue=message.queue, outcome=result.outcome)
            if result.outcome == "retry_later":
                return await self._hand_over(message, request, result)
            _log.info("turn.settled", outcome=result.outcome, attempt=result.attempt)
        return result.acknowledge

    async def _hand_over(
        self, message: InboxMessage, request: TurnRequest, result: TurnResult
    ) -> bool:
        """Send the next attempt to the queue of its priority, interactive ones to retry; else give the message back."""
        target: QueueName = message.queue if has_own_queue(request) else "retry"
        following = msgspec.structs.replace(
            request,
            attempt_hint=result.attempt,
            enqueued_at_ms=self._clock.now_ms(),
            reason="handed_over",
        )
        try:
            await self._queue.send(target, following, delay_s=-(-result.delay_ms // 1_000))
        except ChatError as error:
            _log.warning("turn.hand_over_failed", error_type=type(error).__name__)
            await self.give_back(message)
            return False
        _log.info("turn.handed_over", target=target, attempt=result.attempt)
        return True

    @asynccontextmanager
    async def _hidden(self, message: InboxMessage) -> AsyncIterator[None]:
        extending = asyncio.create_task(self._extend(message), name="visibility")
        try:
            yield
        finally:
            extending.cancel()

    async def _extend(self, message: InboxMessage) -> None:
        while True:
            await self._clock.sleep(self._extend_s)
            try:
                is_ours = await self._inbox.hide(message, hidden_s=self._visibility_s)
            except ChatError as error:
                # There is time for at least one more; and a second delivery is refused by the claim.
                _log.warning("message.not_extended", error_type=type(error).__name__)
                continue
            if not is_ours:
                _log.warning("message.lost")
                return

    async def _keep_malformed(self, message: InboxMessage, error: PermanentError) -> bool:
        letter = malformed_letter(message.body, error, self._clock.now_ms())
        try:
            await self._dead_letters.send(message.queue, letter)
        except ChatError as unavailable:
            _log.warning("message.malformed_not_kept", error_type=type(unavailable).__name__)
            return False
        _log.error("message.malformed", error_type=letter.error.type, size_bytes=len(message.body))
        return True
