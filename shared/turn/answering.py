"""The work of a claimed turn: prepare, call the model, try again where nothing has been shown."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from shared.clock import Clock, Randomness
from shared.contracts.ledger import Claimed
from shared.contracts.recovery import Release
from shared.errors import ModelRateLimited, TransientError
from shared.policy.failed_ends import declined_end, failed_end
from shared.policy.limits import AnswerPlan, TurnLimits
from shared.policy.retry import GiveUp, HandOver, RetryAfter, decide_retry
from shared.policy.staleness import first_text_deadline_ms
from shared.telemetry import Log
from shared.turn.budgeted_generation import BudgetedGeneration, Denied
from shared.turn.endings import (
    NO_FACTS,
    AlreadyAnswered,
    AnswerFacts,
    Completed,
    Ending,
    Failed,
    Postponed,
    facts_of,
    failed,
)
from shared.turn.generation import Overdue
from shared.turn.preparation import Preparation, Prepared, Repeated
from shared.turn.reply import Answered, Declined
from shared.turn.timings import Stopwatch
from shared.turn.writer import TurnWriter

_log = Log("answering")


class Answering:
    """Makes answers. It may be interrupted at any wait; the model's connection is closed then."""

    def __init__(
        self,
        preparation: Preparation,
        generation: BudgetedGeneration,
        clock: Clock,
        randomness: Randomness,
        limits: TurnLimits,
    ) -> None:
        self.preparation = preparation
        self.generation = generation
        self.clock = clock
        self.randomness = randomness
        self.limits = limits

    def begin(
        self, claimed: Claimed, writer: TurnWriter, plan: AnswerPlan, stopwatch: Stopwatch
    ) -> Work:
        """The work of one claim, to be run once."""
        return Work(self, claimed, writer, plan, stopwatch)


class Work:
    """One claim's work. `facts` is what is known of the answer so far, also after an interruption."""

    def __init__(
        self,
        tools: Answering,
        claimed: Claimed,
        writer: TurnWriter,
        plan: AnswerPlan,
        stopwatch: Stopwatch,
    ) -> None:
        self.facts: AnswerFacts = NO_FACTS
        self._tools = tools
        self._claimed = claimed
        self._writer = writer
        self._plan = plan
        self._stopwatch = stopwatch
        self._prepared: Prepared | None = None
        self._has_failed_before = False
        self._deadline_ms = first_text_deadline_ms(
            claimed.request,
            attempt=claimed.ref.attempt,
            claimed_at_ms=stopwatch.claimed_at_ms,
            limits=tools.limits,
        )

    async def run(self) -> Ending:
        """How the work ends. Raises what is not transient."""
        tools = self._tools
        tries = max(1, self._claimed.tries) - 1  # nought where only a stored answer was delivered
        while True:
            tries += 1
            try:
                return await self._try()
            except TransientError as error:
                self._has_failed_before = True
                decision = decide_retry(
                    error,
                    is_visible=bool(self._writer.text),
                    tries=tries,
                    now_ms=tools.clock.now_ms(),
                    deadline_ms=self._deadline_ms,
                    spread=tools.randomness.uniform(0, 1),
                    limits=tools.limits,
                )
                match decision:
                    case RetryAfter(wait_ms):
                        _log.info("turn.retried", error_type=type(error).__name__, wait_ms=wait_ms)
                    case HandOver(delay_ms):
                        return Postponed(delay_ms)
                    case GiveUp(hint_ms):
                        return failed(error, retry_after_ms=hint_ms)
                    case _:
                        assert_never(decision)
            await tools.clock.sleep(wait_ms / 1000)

    async def _try(self) -> Ending:
        if self._prepared is None:
            prepared = await self._tools.preparation.prepare(self._claimed, self._plan)
            if isinstance(prepared, Repeated):
                self.facts = replace(NO_FACTS, recalled=prepared.recalled)
                return AlreadyAnswered(prepared.stored)
            self._prepared = prepared
            self.facts = facts_of(prepared)
            self._writer.start(self._writer.path, self.facts.intent, self.facts.model)
        generated = await self._tools.generation.generate(
            self._prepared.prompt,
            self._writer,
            self._stopwatch,
            first_text_by_ms=self._deadline_ms,
        )
        return self._ending_of(generated)

    def _ending_of(self, generated: Answered | Declined | Overdue | Denied) -> Ending:
        match generated:
            case Answered(stop_reason, usage):
                return Completed(stop_reason, usage)
            case Declined(stop_reason):
                return Failed(declined_end(stop_reason))
            case Overdue():
                return Failed(failed_end("deadline_exceeded"))
            case Denied(decision):
                return self._ending_without_budget(decision)
            case _:
                assert_never(generated)

    def _ending_without_budget(self, decision: HandOver | GiveUp) -> Ending:
        if isinstance(decision, HandOver):
            release: Release = "postponed" if self._has_failed_before else "throttled"
            return Postponed(decision.delay_ms, release)
        return failed(
            ModelRateLimited("the model budget is spent"), retry_after_ms=decision.retry_after_ms
        )
