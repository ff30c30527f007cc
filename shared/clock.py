"""The one door to time and to randomness, so that tests own both."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and waiting."""

    def now_ms(self) -> int:
        """Epoch milliseconds. May jump when the host's clock is corrected."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait `duration_s` seconds. Cancellation is safe."""
        ...


class Randomness(Protocol):
    """Unpredictable ids and spread."""

    def token_bytes(self, size_bytes: int) -> bytes:
        """`size_bytes` bytes fit for ids and nonces."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """A float in [low, high], for jitter."""
        ...


class SystemClock:
    """The host's clocks and the running event loop's timers."""

    def now_ms(self) -> int:
        """Epoch milliseconds of the host."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds of the host's monotonic clock."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(duration_s)


class SystemRandomness:
    """The operating system's generator for ids, a seeded one for jitter."""

    def __init__(self) -> None:
        self._random = random.Random()

    def token_bytes(self, size_bytes: int) -> bytes:
        """Bytes from the operating system."""
        return secrets.token_bytes(size_bytes)

    def uniform(self, low: float, high: float) -> float:
        """A pseudo-random float in [low, high]."""
        return self._random.uniform(low, high)
