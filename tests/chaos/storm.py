"""Many users under a fault every few seconds; afterwards everything must have ended, exactly once."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.audit import Audit, judge
from tests.chaos.crowd import crowd, talk
from tests.chaos.faults import Fault, FaultMaker, Kind, rounds
from tests.chaos.inside import Inside
from tests.chaos.processes import Processes
from tests.chaos.user import ChaosUser
from tests.harness.stack import Stack

SETTLE_S = 100.0
"""After the last fault: longer than every limit of a turn that nobody claims."""
CALM_BEFORE_S = 3.0


@dataclass(frozen=True)
class Storm:
    """What a storm is made of."""

    users: int = 50
    rounds: int = 5
    every_s: float = 3.0
    seed: int = 1


@dataclass(frozen=True)
class StormResult:
    """How it went."""

    faults: Counter[Kind]
    audit: Audit
    settled_s: float
    """From the last fault to the last end."""


async def run_storm(stack: Stack, storm: Storm, say: Callable[[str], None]) -> StormResult:
    """Let it rage, wait for calm, judge."""
    chance = random.Random(storm.seed)
    names = [f"s{storm.seed}-{number}" for number in range(storm.users)]
    async with crowd(stack, names, chance) as users:
        began_s = time.monotonic()

        def tell(fault: Fault) -> None:
            lasts = f" for {fault.lasted_s:.1f} s" if fault.lasted_s else ""
            say(
                f"{time.monotonic() - began_s:6.1f} s  {fault.kind.means} {fault.target}{lasts}"
                f"  ({_progress(users)})"
            )

        maker = FaultMaker(Processes(stack.state_dir), chance, tell)
        enough = asyncio.Event()
        talking = [
            asyncio.create_task(talk(user, random.Random(chance.random()), enough))
            for user in users
        ]
        try:
            await asyncio.sleep(CALM_BEFORE_S)
            await maker.run(rounds(storm.rounds, chance), storm.every_s)
            await maker.calm()
            calm_s = time.monotonic()
            enough.set()
            say(f"calm; waiting for the last ends ({_progress(users)})")
            await asyncio.wait(talking, timeout=SETTLE_S)
            settled_s = time.monotonic() - calm_s
        finally:
            await maker.calm()
            for task in talking:
                task.cancel()
            await asyncio.gather(*talking, return_exceptions=True)
        found = await asyncio.to_thread(_judge_later, stack, users, calm_s + SETTLE_S)
    return StormResult(maker.counts(), found, settled_s)


def _judge_later(stack: Stack, users: list[ChaosUser], until_s: float) -> Audit:
    """Turns whose user was never told of them end a little later than those that are watched."""
    inside = Inside(stack)
    try:
        while time.monotonic() < until_s and inside.unended():
            time.sleep(0.5)
    finally:
        inside.close()
    return judge(stack, users)


def _progress(users: list[ChaosUser]) -> str:
    open_turns = sum(len(user.open_turns) for user in users)
    ended = sum(len(user.witness.ends) for user in users)
    online = sum(user.is_online for user in users)
    return f"online {online}, in flight {open_turns}, ended {ended}"
