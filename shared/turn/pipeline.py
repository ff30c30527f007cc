"""One turn from a request to its end: check, claim, answer, settle. The same for every compute path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import assert_never

from shared.clock import Clock
from shared.contracts.ledger import Claimed
from shared.contracts.turns import Path, TurnRequest
from shared.errors import ChatError, FrameTooLarge
from shared.policy.limits import AnswerPlan
from shared.telemetry import Log, Metrics, bind
from shared.turn.answering import Answering, Work
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.endings import (
    AlreadyAnswered,
    Cancelled,
    Completed,
    Ending,
    Superseded,
    failed,
)
from shared.turn.entry import Entry
from shared.turn.flusher import Flusher
from shared.turn.interruption import Interruption
from shared.turn.result import TurnResult
from shared.turn.settlement import Settlement
from shared.turn.timings import Stopwatch
from shared.turn.unclaimed_ends import count_end
from shared.turn.writer import Stop, TurnWriter

_log = Log("pipeline")


class TurnPipeline:
    """Runs turns, many at once. Its process keeps a flusher and a claim keeper running meanwhile."""

    def __init__(
        self,
        entry: Entry,
        answering: Answering,
        settlement: Settlement,
        flusher: Flusher,
        *,
        plan: Callable[[], AnswerPlan],
        clock: Clock,
        metrics: Metrics,
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        self._entry = entry
        self._answering = answering
        self._settlement = settlement
        self._flusher = flusher
        self._plan = plan
        self._clock = clock
        self._metrics = metrics
        self._ended = ended

    async def run(
        self, request: TurnRequest, path: Path, *, give_up: Interruption | None = None
    ) -> TurnResult:
        """Run one delivery of a turn; repeats are safe.

        When `give_up` is interrupted, whatever is under way is cut, the claim becomes a reservation, and the answer is
        `retry_later`: the consumer sends the next attempt.

        Raises nothing but CancelledError: then the model's stream is closed and the claim given up within one call of
        the ledger, so that whoever cancelled, or else the sweeper, dispatches the next attempt at once.
        """
        with bind(turn_id=request.turn_id, session_id=request.session_id, trace=request.trace):
            try:
                result = await self._run(request, path, give_up or Interruption())
            except ChatError as error:
                _log.warning("turn.not_settled", error_type=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - a process outlives every bug of one turn
                _log.exception("turn.crashed", error)
            else:
                return result
            return TurnResult(outcome="not_settled")

    async def _run(self, request: TurnRequest, path: Path, give_up: Interruption) -> TurnResult:
        # A claim under way whose answer is not waited for lapses like that of a crash.
        entered: Claimed | TurnResult = TurnResult(
            outcome="retry_later", attempt=request.attempt_hint
        )
        async with give_up:
            entered = await self._entry.enter(request, path)
        if isinstance(entered, TurnResult):
            self._note_end(entered, path)
            if entered.status is not None:
                self._ended.unclaimed(
                    request.ref,
                    entered.status,
                    by="worker",
                    now_ms=self._clock.now_ms(),
                    request=request,
                    attempt=entered.attempt,
                )
            return entered
        with bind(attempt=entered.ref.attempt):
            return await self._run_claimed(entered, path, give_up)

    async def _run_claimed(self, claimed: Claimed, path: Path, give_up: Interruption) -> TurnResult:
        stopwatch = Stopwatch(self._clock, claimed.request.accepted_at_ms)
        _log.info("turn.claimed", path=path, followers=len(claimed.followers))
        self._metrics.duration_ms("QueuedMs", stopwatch.timings().queued_ms, path=path)
        writer = self._flusher.open(claimed, path)
        result: TurnResult | None = None
        try:
            async with give_up:
                result = await self._work(claimed, writer, stopwatch)
            if result is None:
                result = await self._settlement.pass_on(writer)
        except asyncio.CancelledError:
            await self._settlement.hand_over(writer)
            raise
        finally:
            self._flusher.close(writer)
        self._note_end(result, path)
        self._note_durations(stopwatch, path)
        return result

    async def _work(self, claimed: Claimed, writer: TurnWriter, stopwatch: Stopwatch) -> TurnResult:
        work = self._answering.begin(claimed, writer, self._plan(), stopwatch)
        if claimed.cancel_requested:
            writer.stop(Stop.CANCELLED)
        ending = await self._answer(writer, work)
        result = await self._settlement.settle(
            writer, ending, facts=work.facts, stopwatch=stopwatch
        )
        self._ended.worked(
            claimed.request,
            result,
            writer.path,
            ending=ending,
            facts=work.facts,
            text=writer.text,
            stopwatch=stopwatch,
            now_ms=self._clock.now_ms(),
        )
        return result

    async def _answer(self, writer: TurnWriter, work: Work) -> Ending:
        ending: Ending | None = None
        try:
            async with writer.interruption:
                ending = await work.run()
        except ChatError as error:
            ending = failed(error)
        except Exception as error:  # noqa: BLE001 - a bug ends its turn in words and as evidence
            _log.exception("turn.bug", error)
            ending = failed(error)
        stop = writer.stop_reason
        is_answer = isinstance(ending, Completed | AlreadyAnswered)
        if stop is None or (is_answer and stop is not Stop.FENCED):
            assert ending is not None  # nothing but a stop interrupts the work
            return ending
        # Errors of a model call that was being closed are not the reason.
        return _ending_of_stop(stop)

    def _note_end(self, result: TurnResult, path: Path) -> None:
        _log.info(
            "turn.ended" if result.outcome == "ended" else "turn.left",
            outcome=result.outcome,
            status=result.status,
            code=result.code,
            path=path,
        )
        if result.status is not None:
            count_end(self._metrics, result.status, path=path, code=result.code)

    def _note_durations(self, stopwatch: Stopwatch, path: Path) -> None:
        timings = stopwatch.timings()
        self._metrics.duration_ms("TurnMs", timings.total_ms, path=path)
        if stopwatch.first_text_at_ms is not None:
            self._metrics.duration_ms("FirstTextMs", timings.first_token_ms, path=path)


def _ending_of_stop(stop: Stop) -> Ending:
    match stop:
        case Stop.CANCELLED:
            return Cancelled("user")
        case Stop.READERLESS:
            return Cancelled("disconnect")
        case Stop.REFUSED:
            return failed(FrameTooLarge("a transport refused a frame for its size"))
        case Stop.FENCED:
            return Superseded()
        case _:
            assert_never(stop)
