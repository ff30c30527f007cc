"""The promise of the shared budget: sixteen processes together neither overdraw it nor leave it unused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from shared.adapters.redis_budget_window import RedisBudgetWindow
from shared.adapters.redis_keys import BUDGET, BUDGET_LINES, BUDGET_SEEN
from shared.clock import SystemClock, SystemRandomness
from shared.turn.model_budget import ModelBudget
from tests.fakes.budget_window import WINDOW_MS, FakeBudgetWindow
from tests.fakes.clock import FakeClock
from tests.fakes.valkey import WatchedRedisClient

WORKERS = 16
OVERSHOOT = 1.01
UTILISATION = 0.97


@dataclass
class Load:
    """What calls come, and what they use in the end. `busy`: how many of the workers have any."""

    requests_per_min: int
    tokens_per_min: int
    calls_per_s: float
    reserved: tuple[int, int]
    used_share: tuple[float, float] = (1.0, 1.0)
    turn_s: tuple[float, float] = (0.5, 2.0)
    busy: int = WORKERS
    detached_share: float = 0.0


@dataclass
class Call:
    at_ms: int
    reserved: int
    used: int
    ended_at_ms: int = 2**62


@dataclass
class Fleet:
    window: Any
    load: Load
    seed: int
    runs_alone: bool = True
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.budgets = [
            ModelBudget(
                self.window,
                self.clock,
                worker=f"w{number}",
                requests_per_min=self.load.requests_per_min,
                tokens_per_min=self.load.tokens_per_min,
                holds_advance=True,
            )
            for number in range(WORKERS)
        ]
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> Any:
        loops = [asyncio.create_task(b.run()) for b in self.budgets if self.runs_alone]
        try:
            yield self
        finally:
            for task in (*loops, *self._tasks):
                task.cancel()
            await asyncio.gather(*loops, *self._tasks, return_exceptions=True)

    async def live(self, duration_s: float, *, step_s: float = 0.5) -> None:
        """With loops of their own the processes ask when they like, else all of them once in each step."""
        owed = 0.0
        for _ in range(round(duration_s / step_s)):
            owed += self.load.calls_per_s * step_s
            while owed >= 1:
                owed -= 1
                budget = self.budgets[self.chance.randrange(self.load.busy)]
                task = asyncio.create_task(self._call(budget))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await self.clock.advance(step_s)
            if not self.runs_alone:
                for budget in self.budgets:
                    await budget.tick()

    async def _call(self, budget: ModelBudget) -> None:
        load = self.load
        reserved = self.chance.randint(*load.reserved)
        used = round(reserved * self.chance.uniform(*load.used_share))
        is_detached = self.chance.random() < load.detached_share
        ticket = await budget.reserve(reserved, is_detached=is_detached)
        call = Call(self.clock.now_ms(), reserved, used)
        self.calls.append(call)
        await self.clock.sleep(self.chance.uniform(*load.turn_s))
        call.ended_at_ms = self.clock.now_ms()
        budget.settle(ticket, used)

    def windows(self) -> Iterator[tuple[int, int]]:
        """Requests and tokens of every sliding minute that begins with a call."""
        calls = sorted(self.calls, key=lambda call: call.at_ms)
        last, requests, tokens = 0, 0, 0
        for call in calls:
            while last < len(calls) and calls[last].at_ms < call.at_ms + WINDOW_MS:
                requests, tokens, last = requests + 1, tokens + calls[last].used, last + 1
            yield requests, tokens
            requests, tokens = requests - 1, tokens - call.used

    def spent(self, from_ms: int, until_ms: int) -> tuple[int, int]:
        """Requests, and tokens used or still set aside, of the calls of that time."""
        calls = [call for call in self.calls if from_ms <= call.at_ms < until_ms]
        return len(calls), sum(
            call.used if call.ended_at_ms <= until_ms else call.reserved for call in calls
        )


LOADS = {
    "requests are short": Load(300, 0, 7, (100, 100)),
    "tokens are short": Load(0, 300_000, 8, (200, 1_600)),
    "most of what is reserved comes back": Load(0, 200_000, 9, (1_024, 2_000), (0.1, 0.5)),
    "one of sixteen works": Load(300, 0, 7, (100, 100), busy=1),
    "both classes wait": Load(300, 240_000, 7, (500, 900), detached_share=0.5),
}


async def judge(fleet: Fleet) -> None:
    start_ms, load = fleet.clock.now_ms(), fleet.load
    async with fleet.running():
        await fleet.live(122)

    one_lease = max(2, load.reserved[1])
    for requests, tokens in fleet.windows():
        assert not load.requests_per_min or requests <= load.requests_per_min * OVERSHOOT + 2
        assert not load.tokens_per_min or tokens <= load.tokens_per_min * OVERSHOOT + one_lease
    # From the moment when the charges of the first minute begin to lapse.
    requests, tokens = fleet.spent(start_ms + 60_500, start_ms + 120_500)
    shares = [requests / load.requests_per_min] if load.requests_per_min else []
    shares += [tokens / load.tokens_per_min] if load.tokens_per_min else []
    assert max(shares) >= UTILISATION


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
async def test_sixteen_processes_use_the_whole_budget_and_not_more(load: Load) -> None:
    await judge(Fleet(FakeBudgetWindow(), load, seed=3))


async def test_the_same_holds_over_a_real_ledger(valkey_url: str) -> None:
    client = WatchedRedisClient(
        valkey_url,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        timeout_ms=5_000,
        connections=2,
    )
    await client.run([("DEL", BUDGET, BUDGET_SEEN, *BUDGET_LINES)])
    load = Load(300, 240_000, 7, (500, 900), (0.5, 1.0), detached_share=0.3)
    await judge(Fleet(RedisBudgetWindow(client), load, seed=5, runs_alone=False))
    await client.aclose()
