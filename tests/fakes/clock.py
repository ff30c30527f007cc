"""Time and chance that a test owns."""

from __future__ import annotations

import asyncio
import heapq
import random

SETTLE_PASSES = 25
"""Loop passes after which tasks that only await each other have come to rest."""


async def settle(passes: int = SETTLE_PASSES) -> None:
    """Let every task run until it waits for something that only a test can bring."""
    for _ in range(passes):
        await asyncio.sleep(0)


class FakeClock:
    """A clock that stands still until `advance`; with `auto` it jumps to the next sleeper when all tasks rest."""

    def __init__(self, start_ms: int = 1_700_000_000_000, *, auto: bool = False) -> None:
        self._start_ms = start_ms
        self._elapsed_s = 0.0
        self._auto = auto
        self._driver: asyncio.Task[None] | None = None
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._sleeps = 0

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic_s(self) -> float:
        return self._elapsed_s

    @property
    def sleepers(self) -> int:
        """How many tasks sleep on this clock."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, duration_s: float) -> None:
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        self._sleeps += 1
        heapq.heappush(self._sleepers, (self._elapsed_s + duration_s, self._sleeps, future))
        if self._auto and (self._driver is None or self._driver.done()):
            self._driver = asyncio.create_task(self._drive())
        await future

    async def advance(self, duration_s: float) -> None:
        """Move time on and wake sleepers in order, each at its own moment, letting it run before the next."""
        await settle()
        target_s = self._elapsed_s + duration_s
        while self._wake_next(target_s):
            await settle()
        self._elapsed_s = target_s
        await settle()

    def skip(self, duration_s: float) -> None:
        """Move time on without waking anyone: for code that only reads the time."""
        self._elapsed_s += duration_s

    def _wake_next(self, target_s: float) -> bool:
        while self._sleepers and self._sleepers[0][0] <= target_s + 1e-9:
            due_s, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self._elapsed_s = max(self._elapsed_s, due_s)
                future.set_result(None)
                return True
        return False

    async def _drive(self) -> None:
        await settle()
        while self._wake_next(float("inf")):
            await settle()


class FakeRandomness:
    """Seeded: the same test sees the same ids and jitter every time."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def token_bytes(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
