"""Model calls under the shared budget: wait for it, call, and settle what the call used."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.model import Prompt
from shared.contracts.turns import TurnRequest
from shared.errors import ModelOverloaded, ModelRateLimited, ModelRejected
from shared.policy.budget_wait import after_wait, patience_ms
from shared.policy.limits import TurnLimits
from shared.policy.retry import GiveUp, HandOver
from shared.policy.staleness import first_text_deadline_ms, is_interactive
from shared.policy.token_estimate import estimate_prompt_tokens, estimate_tokens
from shared.telemetry import Log, Metrics
from shared.turn.generation import Generated, Generation
from shared.turn.model_budget import BudgetShort, ModelBudget, Ticket
from shared.turn.reply import Answered
from shared.turn.timings import Stopwatch
from shared.turn.writer import TurnWriter

_log = Log("budgeted_generation")


@dataclass(frozen=True)
class Denied:
    """The budget allows no call in time; no call was made."""

    decision: HandOver | GiveUp


class BudgetedGeneration:
    """Generation that asks first. `budget` None: calls are not limited."""

    def __init__(
        self,
        generation: Generation,
        budget: ModelBudget | None,
        clock: Clock,
        metrics: Metrics,
        limits: TurnLimits,
    ) -> None:
        self._generation = generation
        self._budget = budget
        self._clock = clock
        self._metrics = metrics
        self._limits = limits

    async def generate(
        self,
        prompt: Prompt,
        writer: TurnWriter,
        stopwatch: Stopwatch,
        *,
        first_text_by_ms: int | None,
    ) -> Generated | Denied:
        """See Generation.generate; its clocks start when the budget has let the call go."""
        if self._budget is None:
            return await self._generation.generate(
                prompt, writer, stopwatch, first_text_by_ms=first_text_by_ms
            )
        prompt_tokens = estimate_prompt_tokens(prompt)
        ticket = await self._wait(
            self._budget, prompt_tokens + prompt.max_tokens, writer.request, first_text_by_ms
        )
        if isinstance(ticket, Denied):
            return ticket
        answered_tokens: int | None = None
        try:
            generated = await self._generation.generate(
                prompt, writer, stopwatch, first_text_by_ms=first_text_by_ms
            )
            if isinstance(generated, Answered):
                answered_tokens = generated.usage.input_tokens + generated.usage.output_tokens
        except (ModelOverloaded, ModelRateLimited, ModelRejected):
            if not writer.text:
                answered_tokens = 0  # refused before any work
            raise
        finally:
            if answered_tokens is None:
                # Cut off: the provider has told nothing, but has read the prompt.
                answered_tokens = prompt_tokens + estimate_tokens(writer.text)
            self._budget.settle(ticket, answered_tokens)
        return generated

    async def _wait(
        self, budget: ModelBudget, tokens: int, request: TurnRequest, first_text_by_ms: int | None
    ) -> Ticket | Denied:
        started_ms = self._clock.now_ms()
        # A later attempt's own time must not let a turn go from one worker to the next for ever.
        leave_by_ms = first_text_deadline_ms(
            request, attempt=1, claimed_at_ms=started_ms, limits=self._limits
        )
        outcome: Ticket | Denied
        try:
            outcome = await budget.reserve(
                tokens,
                is_detached=not is_interactive(request),
                patience_ms=patience_ms(
                    now_ms=started_ms,
                    deadline_ms=first_text_by_ms,
                    may_hand_over_until_ms=leave_by_ms,
                    limits=self._limits,
                ),
            )
        except BudgetShort as short:
            decision = after_wait(
                short.wait_ms,
                now_ms=self._clock.now_ms(),
                may_hand_over_until_ms=leave_by_ms,
                limits=self._limits,
            )
            _log.info("turn.budget_short", wait_ms=short.wait_ms, decision=type(decision).__name__)
            outcome = Denied(decision)
        waited_ms = self._clock.now_ms() - started_ms
        if waited_ms:
            self._metrics.duration_ms("ModelBudgetWaitMs", waited_ms)
        return outcome
