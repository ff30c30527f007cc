"""The fleet's counters in memory."""

from __future__ import annotations

from shared.adapters.redis_load_board import LOST_TURNS
from shared.clock import Clock
from shared.contracts.load import FleetLoad, LoadSample
from shared.errors import DependencyUnavailable


class FakeLoadBoard:
    """Passes the same suite as the Redis board; `available` False makes every call fail."""

    def __init__(self, clock: Clock, *, sample_ttl_ms: int = 5_000) -> None:
        self._clock = clock
        self._sample_ttl_ms = sample_ttl_ms
        self._samples: dict[str, LoadSample] = {}
        self.queued_at_ms: dict[str, int] = {}
        """Turns that wait in burst, with the time they were queued."""
        self.entered = 0
        """Turns ever queued."""
        self.available = True

    async def publish(self, sample: LoadSample) -> None:
        self._ask()
        self._samples[sample.worker] = sample

    async def read(self) -> FleetLoad:
        self._ask()
        now_ms = self._clock.now_ms()
        live = [
            sample
            for _, sample in sorted(self._samples.items())
            if now_ms - sample.at_ms <= self._sample_ttl_ms
        ]
        return FleetLoad(
            samples=tuple(live),
            burst_waiting=len(self.queued_at_ms),
            burst_entered=self.entered,
            burst_oldest_ms=self._oldest_ms(now_ms),
        )

    def _oldest_ms(self, now_ms: int) -> int:
        oldest_first = sorted(self.queued_at_ms.values())
        return max(0, now_ms - oldest_first[LOST_TURNS]) if len(oldest_first) > LOST_TURNS else 0

    def _ask(self) -> None:
        if not self.available:
            raise DependencyUnavailable("load board")
