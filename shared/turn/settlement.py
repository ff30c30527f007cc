"""From an ending to an ended turn: store, evidence, ledger, next head, in this order."""

from __future__ import annotations

from typing import Literal, assert_never

import msgspec

from shared.clock import Clock
from shared.contracts.dead_letters import DeadLetterClass
from shared.contracts.identifiers import TurnId
from shared.contracts.server_frames import Timings, Usage
from shared.contracts.stored_turns import HistoryEntry, StoredTurn
from shared.contracts.turns import EndStatus
from shared.errors import ChatError
from shared.policy.history_window import next_window
from shared.policy.limits import TurnLimits
from shared.ports import TurnDispatcher
from shared.telemetry import Log
from shared.turn.archive import Archive
from shared.turn.closing import Closing
from shared.turn.endings import (
    NO_FACTS,
    AlreadyAnswered,
    AnswerFacts,
    Cancelled,
    Completed,
    Ending,
    Failed,
    Postponed,
    Superseded,
    answered_frame,
    completed_frame,
    failed,
)
from shared.turn.evidence import Death, Evidence
from shared.turn.markers import end_marker, is_answer
from shared.turn.memory import FORGET_WINDOW, encode_window
from shared.turn.result import TurnResult
from shared.turn.terminal_frames import TerminalMaker, cancelled_frame, failed_frame
from shared.turn.timings import Stopwatch
from shared.turn.writer import TurnWriter

_log = Log("settlement")


class Settlement:
    """Ends claimed turns for good."""

    def __init__(
        self,
        archive: Archive,
        closing: Closing,
        dispatcher: TurnDispatcher,
        evidence: Evidence,
        clock: Clock,
        limits: TurnLimits,
    ) -> None:
        self._archive = archive
        self._closing = closing
        self._dispatcher = dispatcher
        self._evidence = evidence
        self._clock = clock
        self._limits = limits

    async def settle(
        self,
        writer: TurnWriter,
        ending: Ending,
        *,
        facts: AnswerFacts,
        stopwatch: Stopwatch,
    ) -> TurnResult:
        """End the turn as `ending` says; raises nothing that the store, the queues or the ledger may answer."""
        match ending:
            case Completed():
                return await self._complete(writer, ending, facts, stopwatch)
            case Cancelled():
                return await self._cancel(writer, ending, facts, stopwatch)
            case Failed():
                return await self._fail(writer, ending, facts, stopwatch)
            case AlreadyAnswered(stored):
                return await self._repeat(writer, stored, facts)
            case Postponed(delay_ms, release):
                await self._closing.release(writer, release, delay_ms)
                return TurnResult(
                    outcome="retry_later", attempt=writer.claim.attempt, delay_ms=delay_ms
                )
            case Superseded():
                return TurnResult(outcome="superseded", attempt=writer.claim.attempt)
            case _:
                assert_never(ending)

    async def pass_on(self, writer: TurnWriter) -> TurnResult:
        """Give up a claim whose work its consumer cut: the consumer sends the next attempt, and nobody else does."""
        await self._closing.release(writer, "passed_on")
        return TurnResult(outcome="retry_later", attempt=writer.claim.attempt)

    async def hand_over(self, writer: TurnWriter) -> None:
        """Give up a claim whose work was cut: another worker may claim the turn at once."""
        await self._closing.release(writer, "handed_over")

    async def _complete(
        self,
        writer: TurnWriter,
        ending: Completed,
        facts: AnswerFacts,
        stopwatch: Stopwatch,
    ) -> TurnResult:
        timings = stopwatch.timings()
        stored = self._item(writer, "completed", ending.stop_reason, facts, ending.usage, timings)
        try:
            winner = await self._archive.put(stored)
        except ChatError as error:
            # Shown, but not kept: the next turn would not know it, so the reader is told and the answer is evidence.
            _log.error("turn.not_stored", error_type=type(error).__name__)
            return await self._fail(writer, failed(error), facts, stopwatch, klass="not_stored")
        if winner is not None:
            return await self._give_way(writer, winner, facts)
        terminal = completed_frame(writer.request.turn_id, writer.text, ending, facts, timings)
        history = self._window(writer, facts)
        return await self._close(writer, terminal, "completed", history)

    async def _cancel(
        self,
        writer: TurnWriter,
        ending: Cancelled,
        facts: AnswerFacts,
        stopwatch: Stopwatch,
    ) -> TurnResult:
        history = None
        if writer.text:
            stored = self._item(
                writer, "cancelled", "cancelled", facts, Usage(), stopwatch.timings()
            )
            stored = msgspec.structs.replace(stored, cancelled_by=ending.by)
            try:
                winner = await self._archive.put(stored)
                history = self._window(writer, facts)
            except ChatError as error:
                _log.error("turn.not_stored", error_type=type(error).__name__)
                winner = None
                await self._bury(writer, error, "not_stored", stopwatch)
        else:
            winner = await self._mark(writer, "cancelled")
        if winner is not None:
            return await self._give_way(writer, winner, facts)
        terminal = cancelled_frame(writer.request.turn_id, writer.text, ending.by)
        return await self._close(writer, terminal, "cancelled", history, code=ending.by)

    async def _fail(
        self,
        writer: TurnWriter,
        ending: Failed,
        facts: AnswerFacts,
        stopwatch: Stopwatch,
        *,
        klass: DeadLetterClass | None = None,
    ) -> TurnResult:
        if klass is None:
            winner = await self._mark(writer, "failed")
            if winner is not None:
                return await self._give_way(writer, winner, facts)
        klass = klass or ending.end.dead_letter
        if klass is not None and ending.error is not None:
            await self._bury(writer, ending.error, klass, stopwatch)
        terminal = failed_frame(writer.request.turn_id, ending.end, is_partial=bool(writer.text))
        return await self._close(writer, terminal, "failed", None, code=ending.end.code)

    async def _repeat(
        self, writer: TurnWriter, stored: StoredTurn, facts: AnswerFacts
    ) -> TurnResult:
        if not await self._make_own(writer, stored):
            return TurnResult(outcome="superseded", attempt=writer.claim.attempt)
        writer.start("stored", stored.intent, stored.model)
        writer.write(stored.assistant_text)
        status: EndStatus = "cancelled" if stored.status == "cancelled" else "completed"
        # The window cached beside the ledger lacks this answer: whoever stored it died before it could write one.
        history = self._window(writer, facts)
        return await self._close(writer, answered_frame(stored), status, history)

    async def _make_own(self, writer: TurnWriter, stored: StoredTurn) -> bool:
        """Keep attempts between the stored one and this one from replacing the answer that is shown now.

        False when a newer producer has stored another answer meanwhile: then that one is shown.
        """
        own = msgspec.structs.replace(stored, attempt=writer.claim.attempt, nonce=writer.nonce)
        try:
            winner = await self._archive.put(own)
        except ChatError as error:
            _log.error("turn.not_marked", error_type=type(error).__name__)
            return True
        return winner is None or winner.nonce == stored.nonce

    async def _close(
        self,
        writer: TurnWriter,
        terminal: TerminalMaker,
        status: EndStatus,
        history: bytes | None,
        *,
        code: str = "",
    ) -> TurnResult:
        # `started` is the first frame even of an attempt that fails at once.
        writer.start(writer.path, NO_FACTS.intent, NO_FACTS.model)
        closed = await self._closing.close(writer, terminal, status=status, history=history)
        if closed.next_head is not None:
            await self._dispatcher.dispatch(closed.next_head)
        return TurnResult(
            outcome=closed.outcome,
            status=status if closed.outcome == "ended" else None,
            attempt=writer.claim.attempt,
            code=code,
        )

    async def _mark(
        self,
        writer: TurnWriter,
        status: EndStatus,
    ) -> StoredTurn | None:
        """Keep an older producer from storing an answer behind this end; the answer it has stored, if it has."""
        held_ms = (self._clock.monotonic_s() - writer.last_held_s) * 1000
        if writer.claim.attempt == 1 and held_ms < self._limits.lease_ms:
            return None
        marker = end_marker(
            writer.request,
            status=status,
            attempt=writer.claim.attempt,
            nonce=writer.nonce,
            now_ms=self._clock.now_ms(),
        )
        try:
            return await self._archive.mark(marker)
        except ChatError as error:
            _log.error("turn.not_marked", error_type=type(error).__name__)
            return None

    async def _give_way(
        self, writer: TurnWriter, winner: StoredTurn, facts: AnswerFacts
    ) -> TurnResult:
        """An answer is stored: nothing but delivering it may end the turn."""
        if is_answer(winner) and not writer.text:
            return await self._repeat(writer, winner, facts)
        # Text of two attempts must not mix, so the next attempt finds the stored answer and delivers it.
        await self._closing.release(writer, "handed_over")
        _log.warning("turn.answered_elsewhere", stored_attempt=winner.attempt)
        return TurnResult(outcome="superseded", attempt=writer.claim.attempt)

    async def _bury(
        self, writer: TurnWriter, error: Exception, klass: DeadLetterClass, stopwatch: Stopwatch
    ) -> None:
        death = Death(
            klass=klass,
            error=error,
            attempt=writer.claim.attempt,
            path=writer.path,
            started_at_ms=stopwatch.claimed_at_ms,
            answer=writer.text if klass == "not_stored" else None,
            earlier_attempts=writer.earlier_attempts,
        )
        await self._evidence.keep(writer.request, death)

    def _window(self, writer: TurnWriter, facts: AnswerFacts) -> bytes:
        if facts.recalled is None or _is_out_of_place(writer.request.turn_id, facts.recalled):
            return FORGET_WINDOW
        newest = HistoryEntry(writer.request.turn_id, writer.request.text, writer.text)
        return encode_window(
            next_window(
                (*facts.recalled, newest),
                max_turns=self._limits.cached_history_turns,
                max_tokens=self._limits.cached_history_tokens,
            )
        )

    def _item(
        self,
        writer: TurnWriter,
        status: Literal["completed", "cancelled"],
        stop_reason: str,
        facts: AnswerFacts,
        usage: Usage,
        timings: Timings,
    ) -> StoredTurn:
        request = writer.request
        return StoredTurn(
            ref=request.ref,
            message_id=request.message_id,
            attempt=writer.claim.attempt,
            nonce=writer.nonce,
            status=status,
            user_text=request.text,
            assistant_text=writer.text,
            stop_reason=stop_reason,
            intent=facts.intent,
            model=facts.model,
            usage=usage,
            timings=timings,
            sources=facts.sources,
            accepted_at_ms=request.accepted_at_ms,
            completed_at_ms=self._clock.now_ms(),
            path=writer.path,
        )


def _is_out_of_place(turn_id: TurnId, recalled: tuple[HistoryEntry, ...]) -> bool:
    """True for a turn that younger ones were answered before: the store knows its place among them."""
    return any(entry.turn_id > turn_id for entry in recalled)
