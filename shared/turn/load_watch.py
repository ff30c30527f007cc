"""The fleet's load as this process last read it, and the level that follows from it."""

from __future__ import annotations

import msgspec

from shared.clock import Clock
from shared.contracts.load import FleetLoad
from shared.errors import DependencyUnavailable
from shared.policy.load_level import LevelState, LoadLevel, next_level
from shared.policy.queue_forecast import QueueForecast
from shared.policy.wait_estimate import estimate_wait_ms
from shared.ports import LoadBoard
from shared.telemetry import Log

NO_LOAD = FleetLoad(samples=(), burst_waiting=0)

_log = Log("load_watch")


class LoadWatch:
    """Reads the board once per interval. While it cannot be asked the last reading stands."""

    name = "load_watch"

    def __init__(
        self, board: LoadBoard, clock: Clock, *, burst_capacity_turns: int, interval_ms: int = 1_000
    ) -> None:
        self._board = board
        self._clock = clock
        self._burst_capacity_turns = burst_capacity_turns
        self._interval_s = interval_ms / 1000
        self._state = LevelState()
        self.forecast = QueueForecast(burst_capacity_turns)
        """What the readings tell of turns that wait in burst."""
        self.fleet = NO_LOAD
        """The last reading with the throughput of burst as measured here; no load before the first."""
        self.failed_since_s: float | None = None
        """Since when (monotonic) the board cannot be asked; None = it answered last time."""

    @property
    def level(self) -> LoadLevel:
        """The load level as of the last reading."""
        return self._state.level

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(self._interval_s)

    async def refresh(self) -> None:
        """Read once; a failure is noted, not raised."""
        now_s = self._clock.monotonic_s()
        try:
            fleet = await self._board.read()
        except DependencyUnavailable as error:
            if self.failed_since_s is None:
                self.failed_since_s = now_s
                _log.warning("load.unavailable", error_type=type(error).__name__)
            return
        self.failed_since_s = None
        self.forecast.read(fleet, self._clock.now_ms())
        self.fleet = msgspec.structs.replace(fleet, burst_per_s=self.forecast.per_s)
        state = next_level(self._state, self.fleet, self._burst_capacity_turns, now_s * 1000)
        if state.level != self._state.level:
            _log.info(
                "load.level",
                load_level=state.level.name.lower(),
                before=self._state.level.name.lower(),
                waiting=self.fleet.burst_waiting,
                predicted_wait_ms=estimate_wait_ms(self.fleet, self._burst_capacity_turns),
                burst_per_s=round(self.fleet.burst_per_s, 1),
            )
        self._state = state
