"""What the `burstchat dlq` commands talk to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shared.bootstrap.adapters import FUNCTION_REDIS_CONNECTIONS, ProcessAdapters
from shared.clock import Clock, Randomness
from shared.policy.sigv4 import Credential
from shared.ports import DeadTurns, SessionQueue, TurnQueue, TurnRevival, TurnStore
from shared.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RedrivePorts:
    """What the `burstchat dlq` commands talk to."""

    sessions: SessionQueue
    revival: TurnRevival
    store: TurnStore
    turn_queue: TurnQueue
    dead_turns: DeadTurns


@asynccontextmanager
async def open_redrive_ports(
    settings: Settings, clock: Clock, randomness: Randomness, credential: Credential | None = None
) -> AsyncIterator[RedrivePorts]:
    """The ports of the `burstchat dlq` commands, closed on leaving. Nothing is asked yet.

    `credential` None = AWS's default chain.
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
        yield RedrivePorts(
            sessions=adapters.sessions(),
            revival=adapters.revival(),
            store=adapters.store(),
            turn_queue=adapters.turn_queue(),
            dead_turns=adapters.dead_turns(),
        )
