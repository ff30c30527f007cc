"""Everything one process needs to run turns, wired: the composition root gives ports and limits, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shared.clock import Clock, Randomness
from shared.policy.limits import AnswerPlan, FlushLimits, PushLimits, TurnLimits
from shared.ports import (
    ChatModel,
    DeadLetterQueue,
    FramePush,
    IntentClassifier,
    TurnClaims,
    TurnDispatcher,
    TurnFollowers,
    TurnStore,
)
from shared.telemetry import Metrics
from shared.turn.answering import Answering
from shared.turn.archive import Archive
from shared.turn.budgeted_generation import BudgetedGeneration
from shared.turn.claim_keeper import ClaimKeeper
from shared.turn.claimant import Claimant
from shared.turn.closing import Closing
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.entry import Entry
from shared.turn.evidence import Evidence
from shared.turn.fan_out import SourcePorts
from shared.turn.flusher import Flusher
from shared.turn.generation import Generation
from shared.turn.live_turns import LiveTurns
from shared.turn.model_budget import ModelBudget
from shared.turn.pipeline import TurnPipeline
from shared.turn.preparation import make_preparation
from shared.turn.pusher import Pusher
from shared.turn.screening import Screening
from shared.turn.settlement import Settlement


@dataclass(frozen=True, kw_only=True)
class TurnPorts:
    """What running turns needs from outside."""

    claims: TurnClaims
    followers: TurnFollowers
    store: TurnStore
    push: FramePush
    model: ChatModel
    classifier: IntentClassifier
    sources: SourcePorts
    dispatcher: TurnDispatcher
    dead_letters: DeadLetterQueue


class TurnEngine:
    """One per process. `pipeline` may be used once `run` is running; leave `run` running until the last turn ended.

    `plan` and `system_prompt` are read once per turn, so that model, sizes and words follow the load level and the
    knowledge index. `worker` names this process in claims and dead letters. Without a `budget` model calls are not
    limited, without a `screening` nothing is kept from model and readers but account numbers.
    """

    def __init__(
        self,
        ports: TurnPorts,
        *,
        system_prompt: Callable[[], str],
        plan: Callable[[], AnswerPlan],
        worker: str,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        limits: TurnLimits,
        flush: FlushLimits,
        pushes: PushLimits,
        budget: ModelBudget | None = None,
        screening: Screening | None = None,
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        screening = screening or Screening(metrics)
        live = LiveTurns()
        claimant = Claimant(
            ports.claims, clock, randomness, worker=worker, grace_ms=limits.reader_grace_ms
        )
        self._budget = budget
        self.pusher = Pusher(ports.push, clock, randomness, pushes)
        self.flusher = Flusher(
            ports.claims, ports.followers, self.pusher, claimant, live, clock, flush
        )
        self.keeper = ClaimKeeper(
            ports.claims,
            live,
            clock,
            interval_ms=limits.renew_interval_ms,
            grace_ms=limits.reader_grace_ms,
        )
        preparation = make_preparation(
            ports.store,
            ports.classifier,
            ports.sources,
            admit=screening.admit,
            system_prompt=system_prompt,
            clock=clock,
            metrics=metrics,
            limits=limits,
        )
        archive = Archive(ports.store, clock, randomness, patience_ms=limits.settle_patience_ms)
        closing = Closing(
            ports.claims, self.flusher, clock, randomness, patience_ms=limits.settle_patience_ms
        )
        evidence = Evidence(ports.dead_letters, clock, randomness, worker=worker)
        self.pipeline = TurnPipeline(
            Entry(
                ports.claims,
                ports.store,
                ports.dispatcher,
                claimant,
                self.pusher,
                clock,
                limits,
            ),
            Answering(
                preparation,
                BudgetedGeneration(
                    Generation(ports.model, screening, clock, limits),
                    budget,
                    clock,
                    metrics,
                    limits,
                ),
                clock,
                randomness,
                limits,
            ),
            Settlement(archive, closing, ports.dispatcher, evidence, clock, limits),
            self.flusher,
            plan=plan,
            clock=clock,
            metrics=metrics,
            ended=ended,
        )

    async def run(self) -> None:
        """Flush, renew and share the budget until cancelled; a crash of one stops all and is raised."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.flusher.run(), name="flusher")
            tasks.create_task(self.keeper.run(), name="claim-keeper")
            if self._budget is not None:
                tasks.create_task(self._budget.run(), name="model-budget")

    async def close(self) -> None:
        """Wait for the pushes under way (bounded by their own deadlines), then drop what is left."""
        await self.pusher.close()
