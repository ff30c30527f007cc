"""How full this task is, as a metric: scaling of the orchestrators follows it."""

from __future__ import annotations

from collections.abc import Callable

from shared.clock import Clock
from shared.policy.admission import SlotCount
from shared.telemetry import Metrics

PUBLISH_EVERY_S = 5.0
"""Twice a period of the alarm, so that a period never lacks a value."""


class OrchestratorStats:
    """Publishes the share of running slots, with a resolution of seconds."""

    name = "stats"

    def __init__(self, count: Callable[[], SlotCount], metrics: Metrics, clock: Clock) -> None:
        self._count = count
        self._metrics = metrics
        self._clock = clock

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._clock.sleep(PUBLISH_EVERY_S)
            count = self._count()
            share = count.running / max(count.slots, 1)
            self._metrics.gauge("RunningPerSlot", share, is_fine=True)
