"""Prompts as a worker would make them, for a person who wants to look at one."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shared.bootstrap.adapters import FUNCTION_REDIS_CONNECTIONS, ProcessAdapters
from shared.bootstrap.intent import make_classifier
from shared.bootstrap.knowledge import open_knowledge
from shared.bootstrap.limits import normal_plan, turn_limits
from shared.bootstrap.screening import make_screening
from shared.bootstrap.sources import make_sources
from shared.clock import Clock, Randomness
from shared.policy.limits import AnswerPlan, TurnLimits
from shared.policy.sigv4 import Credential
from shared.ports import TurnStore
from shared.settings import Settings
from shared.telemetry import Metrics
from shared.turn.preparation import Preparation, make_preparation


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What makes prompts, and what it goes by when nothing is loaded."""

    store: TurnStore
    preparation: Preparation
    plan: AnswerPlan
    limits: TurnLimits


@asynccontextmanager
async def open_inspection(
    settings: Settings, clock: Clock, randomness: Randomness, credential: Credential | None = None
) -> AsyncIterator[Inspection]:
    """A worker's preparation that claims, writes and counts nothing; closed on leaving.

    `credential` None = AWS's default chain. Raises DependencyUnavailable when the knowledge index cannot be read.
    """
    async with AsyncExitStack() as closing:
        adapters = ProcessAdapters(
            settings,
            clock,
            randomness,
            closing,
            redis_connections=FUNCTION_REDIS_CONNECTIONS,
            credential=credential,
        )
        metrics = Metrics("inspection", "operator", clock, io.StringIO())
        embedder, index = await open_knowledge(settings, clock, closing, credential)
        limits = turn_limits(settings, "orchestrator")
        store = adapters.store()
        screening = make_screening(settings, adapters, lambda: index.current().blocked, metrics)
        yield Inspection(
            store=store,
            preparation=make_preparation(
                store,
                make_classifier(settings, adapters, embedder, index, clock=clock, metrics=metrics),
                make_sources(settings, adapters, embedder, index, closing, credential),
                admit=screening.admit,
                system_prompt=lambda: index.current().prompt,
                clock=clock,
                metrics=metrics,
                limits=limits,
            ),
            plan=normal_plan(settings),
            limits=limits,
        )
