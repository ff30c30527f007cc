"""How long a client that comes back waits for a reply of a thousand tokens."""

from __future__ import annotations

import asyncio
import json
import random
import time

from websockets.asyncio.client import connect

from tests.chaos.crowd import crowd, sockets_of
from tests.chaos.user import Script
from tests.harness.stack import Stack

SCRIPT = Script(tokens=1_000, tokens_per_s=50)
REPEATS = 200
PAUSE_S = 0.05
"""Below the frames that a connection may send in a second."""


async def measure_resumes(stack: Stack, seed: int) -> tuple[list[float], int]:
    """Milliseconds from `chat.resume` to the terminal frame, and the frames of the reply."""
    async with crowd(stack, [f"r{seed}"], random.Random(seed)) as [user]:
        message_id = await user.say(SCRIPT)
        turn = await user.ended(message_id)
        assert turn.status == "completed", turn.status
        token, session_id = user.token, user.session_id
    resume = json.dumps({"type": "chat.resume", "turn_id": turn.turn_id, "after_seq": -1})
    took_ms = []
    async with connect(
        f"{sockets_of(stack)[0]}?session_id={session_id}",
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        max_size=2**20,
        proxy=None,
    ) as socket:
        await socket.recv()
        for _ in range(REPEATS):
            began_s = time.perf_counter()
            await socket.send(resume)
            while '"chat.response.completed"' not in str(await socket.recv()):
                pass
            took_ms.append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(PAUSE_S)
    return took_ms, turn.last_seq + 1
