"""Gateways and orchestrators killed together in mid-turn, and nobody comes back to look."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.crowd import crowd
from tests.chaos.processes import Processes
from tests.chaos.user import Script
from tests.harness.stack import Stack

USERS = 6
ENDS_WITHIN_S = 100.0
ENDED = ("completed", "failed", "cancelled", "expired")


@dataclass
class Abandoned:
    """What `GET /v1/turns/{id}` said in the end."""

    states: Counter[str] = field(default_factory=Counter)
    unended: list[str] = field(default_factory=list)
    took_s: float = 0.0
    """From the kill to the last end."""


async def leave_turns_alone(stack: Stack, seed: int) -> Abandoned:
    """Start turns, kill whoever serves them, go away, and ask over HTTP much later."""
    chance = random.Random(seed)
    names = [f"a{seed}-{number}" for number in range(USERS)]
    script = Script(tokens=100, tokens_per_s=20)
    async with crowd(stack, names, chance) as users:
        asked = [(user, await user.say(script)) for user in users]
        await asyncio.gather(*(user.until(message, "streaming") for user, message in asked))
        await asyncio.sleep(1)
        processes = Processes(stack.state_dir)
        for target in (*processes.alive("gateway"), *processes.alive("orchestrator")):
            target.signal(signal.SIGKILL)
        killed_s = time.monotonic()
    found = Abandoned()
    turns = {str(user.turn(message).turn_id): user.token for user, message in asked}
    while turns and time.monotonic() - killed_s < ENDS_WITHIN_S:
        for turn_id, token in list(turns.items()):
            status = await asyncio.to_thread(_status, stack, turn_id, token)
            if status in ENDED:
                found.states[status] += 1
                del turns[turn_id]
        await asyncio.sleep(0.5)
    found.took_s = time.monotonic() - killed_s
    found.unended = list(turns)
    return found


def _status(stack: Stack, turn_id: str, token: str) -> str:
    request = urllib.request.Request(
        f"{stack.http_url}/v1/turns/{turn_id}", headers={"authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code}"
    except OSError:
        return "no gateway"
