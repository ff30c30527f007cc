"""Real faults on a fixed beat: processes killed, or stopped for some seconds."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.chaos.processes import ROLES, Processes, Role, Target

Means = Literal["kill", "stop"]
STOPPED_S = (4.0, 8.0)
TARGETS_WITHIN_S = 60.0
"""A killed service is back after 5 s and its start; a process of a function when it is needed."""


@dataclass(frozen=True)
class Kind:
    """What is done to which role."""

    means: Means
    role: Role

    def __str__(self) -> str:
        return f"{self.means} {self.role}"


KINDS = tuple(Kind(means, role) for means in ("kill", "stop") for role in ROLES)


@dataclass(frozen=True)
class Fault:
    """One that happened."""

    kind: Kind
    target: str
    at_ms: int
    lasted_s: float = 0.0


def rounds(count: int, chance: random.Random) -> Iterator[Kind]:
    """Every kind once a round; the two of Valkey half a round apart, so that it is up between them."""
    for _ in range(count):
        ledger = [Kind("kill", "valkey"), Kind("stop", "valkey")]
        others = [kind for kind in KINDS if kind.role != "valkey"]
        chance.shuffle(ledger)
        chance.shuffle(others)
        half = len(others) // 2
        yield from (ledger[0], *others[:half], ledger[1], *others[half:])


class FaultMaker:
    """Makes one fault after another; `calm` ends what still lasts."""

    def __init__(
        self, processes: Processes, chance: random.Random, tell: Callable[[Fault], None]
    ) -> None:
        self.faults: list[Fault] = []
        self._processes = processes
        self._chance = chance
        self._tell = tell
        self._stopped: dict[int, Target] = {}
        self._waking: set[asyncio.Task[None]] = set()

    def counts(self) -> Counter[Kind]:
        """How often each kind happened."""
        return Counter(fault.kind for fault in self.faults)

    async def run(self, kinds: Iterable[Kind], every_s: float) -> None:
        """One fault per beat; a kind without a process to strike is put off until there is one.

        Raises AssertionError when nothing can be struck for TARGETS_WITHIN_S.
        """
        waiting = deque(kinds)
        last_s = time.monotonic()
        while waiting:
            beat = asyncio.create_task(asyncio.sleep(every_s))
            while not await self._make_first(waiting):
                assert time.monotonic() - last_s < TARGETS_WITHIN_S, f"nothing to strike: {waiting}"
                await asyncio.sleep(0.2)
            last_s = time.monotonic()
            await beat

    async def _make_first(self, waiting: deque[Kind]) -> bool:
        """Make the first fault that can be made, and take it out."""
        for kind in waiting:
            target = await asyncio.to_thread(self._choose, kind.role)
            fault = None if target is None else self._strike(kind, target)
            if fault is not None:
                self.faults.append(fault)
                self._tell(fault)
                waiting.remove(kind)
                return True
        return False

    async def calm(self) -> None:
        """Let every stopped process go on."""
        for waking in self._waking:
            waking.cancel()
        await asyncio.gather(*self._waking, return_exceptions=True)
        for target in list(self._stopped.values()):
            self._wake(target)

    def _choose(self, role: Role) -> Target | None:
        free = [
            target
            for target in self._processes.alive(role)
            if target.identity.pid not in self._stopped
        ]
        if not free:
            return None
        # Functions are listed with the busiest first: an idle process is no loss.
        return free[0] if role == "burst_worker" else self._chance.choice(free)

    def _strike(self, kind: Kind, target: Target) -> Fault | None:
        at_ms = round(time.time() * 1000)
        if kind.means == "kill":
            killed = target.signal(signal.SIGKILL)
            return Fault(kind, target.name, at_ms) if killed else None
        if not target.signal(signal.SIGSTOP):
            return None
        lasts_s = self._chance.uniform(*STOPPED_S)
        self._stopped[target.identity.pid] = target
        waking = asyncio.create_task(self._wake_after(target, lasts_s))
        self._waking.add(waking)
        waking.add_done_callback(self._waking.discard)
        return Fault(kind, target.name, at_ms, lasts_s)

    async def _wake_after(self, target: Target, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._wake(target)

    def _wake(self, target: Target) -> None:
        self._stopped.pop(target.identity.pid, None)
        target.signal(signal.SIGCONT)
