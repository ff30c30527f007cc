"""What a gateway talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shared.adapters.http_turn_intake import HttpTurnIntake
from shared.adapters.redis_allowances import RedisAllowances
from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.adapters.redis_load_board import RedisLoadBoard
from shared.bootstrap.adapters import ProcessAdapters, push_credential
from shared.bootstrap.analytics import open_analytics
from shared.clock import Clock, Randomness
from shared.ports import (
    Allowances,
    ConnectionRegistry,
    DeadLetterQueue,
    DueTurns,
    FramePush,
    LoadBoard,
    SessionQueue,
    TurnClaims,
    TurnFollowers,
    TurnIntake,
    TurnQueue,
    TurnStore,
)
from shared.settings import Settings
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns


@dataclass(frozen=True, kw_only=True)
class GatewayPorts:
    """What a gateway talks to."""

    queue: SessionQueue
    claims: TurnClaims
    followers: TurnFollowers
    registry: ConnectionRegistry
    allowances: Allowances
    store: TurnStore
    intake: TurnIntake
    turn_queue: TurnQueue
    load: LoadBoard
    push: FramePush
    due: DueTurns
    dead_letters: DeadLetterQueue
    ended: EndedTurns = NOBODY_TOLD


@asynccontextmanager
async def open_gateway_ports(
    settings: Settings, clock: Clock, randomness: Randomness
) -> AsyncIterator[GatewayPorts]:
    """The gateway's ports, closed on leaving. Nothing is asked yet, so a dependency may still be down."""
    async with AsyncExitStack() as closing:
        adapters = ProcessAdapters(settings, clock, randomness, closing)
        analytics = open_analytics(settings, "gateway", adapters, clock, randomness, closing)
        yield GatewayPorts(
            queue=adapters.sessions(),
            claims=adapters.claims(),
            followers=adapters.followers(),
            registry=RedisConnectionRegistry(
                adapters.redis,
                owner_lease_ms=settings.gateway.owner_lease_ms,
                connection_kept_ms=2 * settings.gateway.max_age_ms,
                user_connections=settings.gateway.user_connections,
            ),
            allowances=RedisAllowances(adapters.redis),
            store=adapters.store(),
            intake=HttpTurnIntake(
                adapters.http,
                settings.gateway.intake_urls,
                push_credential(settings),
                clock,
                timeout_ms=settings.gateway.intake_timeout_ms,
            ),
            turn_queue=adapters.turn_queue(),
            load=RedisLoadBoard(adapters.redis, clock),
            push=adapters.push(),
            due=adapters.due(),
            dead_letters=adapters.dead_letters(),
            ended=analytics.ended,
        )
