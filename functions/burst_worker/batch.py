"""Runs the turns of one batch side by side and says which messages must come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from shared.clock import Clock
from shared.contracts.turns import TurnRequest, decode_turn
from shared.errors import ChatError, MalformedMessage, PermanentError, UnsupportedTurn
from shared.ports import DeadLetterQueue, InboxMessage, TurnInbox, TurnQueue
from shared.telemetry import Log, Metrics, bind
from shared.turn.evidence import malformed_letter
from shared.turn.interruption import Interruption
from shared.turn.result import TurnResult

BEGIN_NEEDS_MS = 10_000
"""With less time left a turn is not begun: it could not end before the function's limit."""
HAND_OVER_NEEDS_MS = 4_000
"""Kept for giving away what still runs, before the platform kills the environment."""

_log = Log("burst_batch")


class TurnBatch:
    """The consumer of burst and retry.

    A message is acknowledged when its turn ended, when the claim was refused (somebody else answers for the turn),
    when it was handed over to the retry queue, or when it is kept as a dead letter. Everything else comes back.
    `run` runs a turn until it ends, or until its Interruption tells it to give up.
    """

    def __init__(
        self,
        *,
        run: Callable[[TurnRequest, Interruption], Awaitable[TurnResult]],
        queue: TurnQueue,
        inbox: TurnInbox,
        dead_letters: DeadLetterQueue,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._run = run
        self._queue = queue
        self._inbox = inbox
        self._dead_letters = dead_letters
        self._clock = clock
        self._metrics = metrics

    async def run(
        self, messages: Sequence[InboxMessage], remaining_ms: int
    ) -> Sequence[InboxMessage]:
        """The messages that must come back, in their order. Raises nothing for a single turn's sake."""
        give_up_at_s = self._clock.monotonic_s() + (remaining_ms - HAND_OVER_NEEDS_MS) / 1000
        may_begin = remaining_ms >= BEGIN_NEEDS_MS
        acknowledged = await asyncio.gather(
            *(self._settle(message, may_begin, give_up_at_s) for message in messages)
        )
        return [message for message, done in zip(messages, acknowledged, strict=True) if not done]

    async def _settle(self, message: InboxMessage, may_begin: bool, give_up_at_s: float) -> bool:
        with bind(queue=message.queue, sqs_message_id=message.message_id):
            try:
                request = decode_turn(message.body.encode("utf-8", "surrogatepass"))
                with bind(turn_id=request.turn_id, session_id=request.session_id):
                    return await self._settle_turn(message, request, may_begin, give_up_at_s)
            except (MalformedMessage, UnsupportedTurn) as error:
                return await self._keep_malformed(message, error)
            except Exception as error:  # noqa: BLE001 - its neighbours have done nothing wrong
                _log.exception("turn.crashed", error)
                return False

    async def _settle_turn(
        self, message: InboxMessage, request: TurnRequest, may_begin: bool, give_up_at_s: float
    ) -> bool:
        if not may_begin:
            return await self._hand_over(message, request, reason="no_time_left")
        give_up = Interruption()
        result = await self._run_within(request, give_up, give_up_at_s)
        self._metrics.count("BurstTurns", outcome=result.outcome)
        if result.outcome == "retry_later":
            return await self._hand_over(
                message,
                msgspec.structs.replace(request, attempt_hint=result.attempt),
                reason="function_limit" if give_up.interrupted else "retry",
                delay_ms=result.delay_ms,
            )
        _log.info("turn.settled", outcome=result.outcome, attempt=result.attempt)
        return result.acknowledge

    async def _run_within(
        self, request: TurnRequest, give_up: Interruption, give_up_at_s: float
    ) -> TurnResult:
        """The turn's result; one that is still running when the function's time is up is told to give up."""
        running = asyncio.ensure_future(self._run(request, give_up))
        alarm = asyncio.ensure_future(
            self._clock.sleep(max(0.0, give_up_at_s - self._clock.monotonic_s()))
        )
        try:
            await asyncio.wait([running, alarm], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                give_up.interrupt()
            return await running
        finally:
            alarm.cancel()
            running.cancel()

    async def _hand_over(
        self, message: InboxMessage, request: TurnRequest, *, reason: str, delay_ms: int = 0
    ) -> bool:
        delay_s = -(-delay_ms // 1000)
        sent = msgspec.structs.replace(request, enqueued_at_ms=self._clock.now_ms(), reason=reason)
        try:
            await self._queue.send("retry", sent, delay_s=delay_s)
        except ChatError as error:
            _log.warning("turn.hand_over_failed", reason=reason, error_type=type(error).__name__)
            await self._return_after(message, delay_s)
            return False
        _log.info("turn.handed_over", reason=reason, delay_ms=delay_ms)
        return True

    async def _return_after(self, message: InboxMessage, delay_s: int) -> None:
        """Have the message come back when its turn wants to be run, rather than after the queue's visibility."""
        try:
            await self._inbox.hide(message, hidden_s=delay_s)
        except ChatError as error:
            _log.warning("message.not_hidden", error_type=type(error).__name__)

    async def _keep_malformed(self, message: InboxMessage, error: PermanentError) -> bool:
        letter = malformed_letter(message.body, error, self._clock.now_ms())
        try:
            await self._dead_letters.send(message.queue, letter)
        except ChatError as unavailable:
            _log.warning("message.malformed_not_kept", error_type=type(unavailable).__name__)
            return False
        _log.error("message.malformed", error_type=letter.error.type, size_bytes=len(message.body))
        return True
