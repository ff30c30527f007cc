"""Samples this task's load and publishes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.load_window import LagWindow, MeanTurn
from shared.clock import Clock
from shared.contracts.load import LoadSample
from shared.errors import DependencyUnavailable
from shared.policy.admission import SlotCount, Strain, StrainLimits, next_strain
from shared.ports import LoadBoard
from shared.telemetry import Log

PROBE_INTERVAL_S = 0.05

_log = Log("load_monitor")


class LoadMonitor:
    """One sample per period."""

    name = "load_monitor"

    def __init__(
        self,
        *,
        worker: str,
        board: LoadBoard,
        count: Callable[[], SlotCount],
        limits: StrainLimits,
        cpu: CpuMeter,
        sample_ms: int,
        clock: Clock,
        model_wait_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._worker = worker
        self._board = board
        self._count = count
        self._limits = limits
        self._cpu = cpu
        self._sample_s = sample_ms / 1000
        self._clock = clock
        self._model_wait_ms = model_wait_ms
        self._lag = LagWindow()
        self._mean_turn = MeanTurn()
        self.strain: Strain = "none"
        """What keeps this task from inline work, as of the last sample."""

    def turn_ended(self, duration_ms: float) -> None:
        """Count one ended turn towards the mean."""
        self._mean_turn.add(duration_ms)

    async def run(self) -> None:
        """Probe and publish until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._probe())
            group.create_task(self._publish())

    async def _probe(self) -> None:
        while True:
            before_s = self._clock.monotonic_s()
            await self._clock.sleep(PROBE_INTERVAL_S)
            late_s = self._clock.monotonic_s() - before_s - PROBE_INTERVAL_S
            self._lag.add(late_s * 1000)

    async def _publish(self) -> None:
        while True:
            await self.sample()
            await self._clock.sleep(self._sample_s)

    async def sample(self) -> None:
        """Close the period: measure, decide the strain, publish. Never raises for the board."""
        count = self._count()
        sample = LoadSample(
            worker=self._worker,
            at_ms=self._clock.now_ms(),
            slots=count.slots,
            running=count.running,
            lag_ms=round(self._lag.close(), 1),
            cpu_share=round(self._cpu.share(), 3),
            mean_turn_ms=round(self._mean_turn.value_ms, 1),
            model_wait_ms=round(self._model_wait_ms(), 1),
        )
        self._enter(next_strain(self.strain, sample.lag_ms, sample.cpu_share, self._limits), sample)
        try:
            await self._board.publish(sample)
        except DependencyUnavailable as error:
            _log.warning("load.not_published", error_type=type(error).__name__)

    def _enter(self, strain: Strain, sample: LoadSample) -> None:
        if strain != self.strain:
            _log.info(
                "load.strain", strain=strain, lag_ms=sample.lag_ms, cpu_share=sample.cpu_share
            )
        self.strain = strain
