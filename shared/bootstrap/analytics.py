"""Analytics of one process, as the settings name it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from shared.adapters.kinesis_turn_events import KinesisTurnEvents
from shared.bootstrap.adapters import ProcessAdapters
from shared.clock import Clock, Randomness
from shared.settings import Role, Settings
from shared.telemetry import Log, Metrics
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns

LAST_FLUSH_S: Final = 1.5
"""What a process that stops, or a function before it is frozen, spends on its last events."""

_log = Log("analytics")


@dataclass(frozen=True)
class Analytics:
    """Whom to tell of ended turns, and how to have it sent before the process is frozen."""

    ended: EndedTurns
    flush: Callable[[], Awaitable[None]]
    """Send what was noted so far, within LAST_FLUSH_S; raises nothing for Kinesis' sake."""


async def _nothing() -> None:
    pass


def open_analytics(
    settings: Settings,
    role: Role,
    adapters: ProcessAdapters,
    clock: Clock,
    randomness: Randomness,
    closing: AsyncExitStack,
) -> Analytics:
    """Without a stream nobody is told. Needs a running loop; the last events are sent when `closing` closes."""
    analytics = settings.analytics
    if not analytics.analytics_stream:
        return Analytics(NOBODY_TOLD, _nothing)
    events = KinesisTurnEvents(
        adapters.kinesis(),
        analytics.analytics_stream,
        clock=clock,
        randomness=randomness,
        metrics=Metrics(settings.telemetry.metrics_namespace, role, clock),
        buffer_events=analytics.analytics_buffer_events,
        flush_ms=analytics.analytics_flush_ms,
    )

    async def flush() -> None:
        try:
            async with asyncio.timeout(LAST_FLUSH_S):
                await events.flush()
        except TimeoutError:
            _log.warning("events.left")

    running = asyncio.create_task(events.run(), name="turn-events")

    async def close() -> None:
        running.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await running
        await flush()
        events.abandon()

    closing.push_async_callback(close)
    return Analytics(EndedTurns(events, user_key=analytics.analytics_user_key), flush)
