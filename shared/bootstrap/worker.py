"""A consumer of turns: the engine, its ports and its background work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from shared.adapters.redis_load_board import RedisLoadBoard
from shared.adapters.watched_index import WatchedIndex
from shared.bootstrap.adapters import FUNCTION_REDIS_CONNECTIONS, ProcessAdapters
from shared.bootstrap.analytics import Analytics, open_analytics
from shared.bootstrap.intent import make_classifier
from shared.bootstrap.knowledge import open_knowledge
from shared.bootstrap.limits import answer_plans, flush_limits, push_limits, turn_limits
from shared.bootstrap.model import open_budget, open_model
from shared.bootstrap.screening import make_screening
from shared.bootstrap.sources import make_sources
from shared.clock import Clock, Randomness
from shared.ports import (
    ChatModel,
    DeadLetterQueue,
    DueTurns,
    FramePush,
    IntentClassifier,
    LoadBoard,
    SessionQueue,
    TurnClaims,
    TurnDispatcher,
    TurnFollowers,
    TurnInbox,
    TurnQueue,
    TurnStore,
)
from shared.settings import Role, Settings
from shared.telemetry import Metrics
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.fan_out import SourcePorts
from shared.turn.load_watch import LoadWatch
from shared.turn.model_budget import ModelBudget


@dataclass(frozen=True, kw_only=True)
class Worker:
    """What a consumer of turns is made of; `background` flushes, renews and watches until the worker closes.

    When `background` ends before that, turns no longer move: stop the process, or open another worker.
    """

    engine: TurnEngine
    sessions: SessionQueue
    turn_queue: TurnQueue
    turn_inbox: TurnInbox
    dead_letters: DeadLetterQueue
    load: LoadBoard
    watch: LoadWatch
    claims: TurnClaims
    followers: TurnFollowers
    store: TurnStore
    push: FramePush
    due: DueTurns
    budget: ModelBudget
    analytics: Analytics
    background: asyncio.Task[None]


@asynccontextmanager
async def open_worker(
    settings: Settings,
    role: Role,
    *,
    worker: str,
    dispatcher: Callable[[TurnQueue, SessionQueue], TurnDispatcher],
    clock: Clock,
    randomness: Randomness,
    metrics: Metrics,
) -> AsyncIterator[Worker]:
    """A worker that is ready to run turns; `worker` names it in claims, logs and dead letters.

    Raises DependencyUnavailable when the knowledge index cannot be read: it holds the prompt, without which nobody
    should answer. Leaving waits for the pushes under way, then closes.
    """
    async with AsyncExitStack() as closing:
        connections = FUNCTION_REDIS_CONNECTIONS if role == "burst_worker" else None
        adapters = ProcessAdapters(
            settings, clock, randomness, closing, redis_connections=connections
        )
        embedder, index = await open_knowledge(settings, clock, closing)
        load = RedisLoadBoard(adapters.redis, clock)
        watch = LoadWatch(
            load, clock, burst_capacity_turns=settings.orchestrator.burst_capacity_turns
        )
        turn_queue, sessions, dead_letters = (
            adapters.turn_queue(),
            adapters.sessions(),
            adapters.dead_letters(),
        )
        budget = open_budget(
            settings,
            adapters,
            clock,
            worker=worker,
            # A function is frozen between its batches: what it held would be lost to all.
            holds_advance=role != "burst_worker",
        )
        analytics = open_analytics(settings, role, adapters, clock, randomness, closing)
        ports = _turn_ports(
            adapters,
            make_classifier(settings, adapters, embedder, index, clock=clock, metrics=metrics),
            make_sources(settings, adapters, embedder, index, closing),
            model=open_model(settings, clock, closing, note=budget.note),
            dispatcher=dispatcher(turn_queue, sessions),
            dead_letters=dead_letters,
        )
        engine = TurnEngine(
            ports,
            system_prompt=lambda: index.current().prompt,
            plan=answer_plans(settings, watch, metrics),
            worker=worker,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            limits=turn_limits(settings, role),
            flush=flush_limits(settings),
            pushes=push_limits(settings),
            screening=make_screening(settings, adapters, lambda: index.current().blocked, metrics),
            budget=budget,
            ended=analytics.ended,
        )
        background = asyncio.create_task(_run_background(engine, watch, index), name="background")
        closing.push_async_callback(_stop, background)
        closing.push_async_callback(engine.close)
        yield Worker(
            engine=engine,
            sessions=sessions,
            turn_queue=turn_queue,
            turn_inbox=adapters.turn_inbox(),
            dead_letters=dead_letters,
            load=load,
            watch=watch,
            claims=ports.claims,
            followers=ports.followers,
            store=ports.store,
            push=ports.push,
            due=adapters.due(),
            budget=budget,
            analytics=analytics,
            background=background,
        )


def _turn_ports(
    adapters: ProcessAdapters,
    classifier: IntentClassifier,
    sources: SourcePorts,
    *,
    model: ChatModel,
    dispatcher: TurnDispatcher,
    dead_letters: DeadLetterQueue,
) -> TurnPorts:
    return TurnPorts(
        claims=adapters.claims(),
        followers=adapters.followers(),
        store=adapters.store(),
        push=adapters.push(),
        model=model,
        classifier=classifier,
        sources=sources,
        dispatcher=dispatcher,
        dead_letters=dead_letters,
    )


async def _run_background(engine: TurnEngine, watch: LoadWatch, index: WatchedIndex) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run(), name="engine")
        tasks.create_task(watch.run(), name="load-watch")
        tasks.create_task(index.run(), name="index-watch")


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its error has been the owner's to see: `Worker.background`.
    with suppress(asyncio.CancelledError, Exception):
        await task
