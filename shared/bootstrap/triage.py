"""What triage of dead letters talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shared.bootstrap.adapters import FUNCTION_REDIS_CONNECTIONS, ProcessAdapters
from shared.bootstrap.analytics import open_analytics
from shared.clock import Clock, Randomness
from shared.ports import DeadTurns, FramePush, SessionQueue, TurnClaims, TurnQueue, TurnStore
from shared.settings import Settings
from shared.turn.ended_turns import EndedTurns


@dataclass(frozen=True, kw_only=True)
class TriagePorts:
    """What triage of dead letters talks to."""

    sessions: SessionQueue
    claims: TurnClaims
    store: TurnStore
    push: FramePush
    turn_queue: TurnQueue
    dead_turns: DeadTurns
    ended: EndedTurns


@asynccontextmanager
async def open_triage_ports(
    settings: Settings, clock: Clock, randomness: Randomness
) -> AsyncIterator[TriagePorts]:
    """The ports of dlq_triage, closed on leaving. Nothing is asked yet."""
    async with AsyncExitStack() as closing:
        adapters = ProcessAdapters(
            settings, clock, randomness, closing, redis_connections=FUNCTION_REDIS_CONNECTIONS
        )
        analytics = open_analytics(settings, "dlq_triage", adapters, clock, randomness, closing)
        yield TriagePorts(
            sessions=adapters.sessions(),
            claims=adapters.claims(),
            store=adapters.store(),
            push=adapters.push(),
            turn_queue=adapters.turn_queue(),
            dead_turns=adapters.dead_turns(),
            ended=analytics.ended,
        )
