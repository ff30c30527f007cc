"""A gateway with a thousand sockets is told to stop in the middle of answers."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.audit import Audit, judge
from tests.chaos.crowd import crowd
from tests.chaos.processes import Processes
from tests.chaos.user import Script
from tests.harness.stack import Stack

SOCKETS = 1_000
TALKING = 190
"""Nearly as many as the slots of the fleet run at once."""
SCRIPT = Script(tokens=400, tokens_per_s=20)
ENDS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Drained:
    """How the gateway left, and what its clients lost by it."""

    sockets: int
    exit_s: float
    """From SIGTERM to the end of the process."""
    back_s: float
    """From SIGTERM until every client was connected elsewhere."""
    streaming: int
    """Turns in mid-answer at SIGTERM."""
    deltas: int
    audit: Audit


async def measure_drain(stack: Stack, seed: int, sockets: int = SOCKETS) -> Drained:
    """SIGTERM to gateway 0, on which everybody is."""
    names = [f"d{seed}-{number}" for number in range(sockets)]
    async with crowd(stack, names, random.Random(seed), gateway=0) as users:
        talking = users[:TALKING]
        asked = [(user, await user.say(SCRIPT)) for user in talking]
        await asyncio.gather(*(user.until(message, "streaming") for user, message in asked))
        await asyncio.sleep(1)
        streaming = sum(turn.status == "streaming" for user in users for turn in user.open_turns)
        [gateway] = [
            target for target in Processes(stack.state_dir).alive("gateway") if target.index == 0
        ]
        began_s = time.monotonic()
        gateway.signal(signal.SIGTERM)
        exit_s, back_s = await asyncio.gather(
            _when(lambda: not gateway.identity.is_alive(), began_s),
            _when(lambda: all(user.is_online and user.connections > 1 for user in users), began_s),
        )
        async with asyncio.timeout(ENDS_WITHIN_S):
            await asyncio.gather(*(user.ended(message) for user, message in asked))
        found = await asyncio.to_thread(judge, stack, users)
    deltas = sum(len(frames) for user in users for frames in user.witness.frames.values())
    return Drained(sockets, exit_s, back_s, streaming, deltas, found)


async def _when(condition: Callable[[], bool], began_s: float) -> float:
    async with asyncio.timeout(ENDS_WITHIN_S):
        while not condition():
            await asyncio.sleep(0.02)
    return time.monotonic() - began_s
