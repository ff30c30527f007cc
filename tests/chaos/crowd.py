"""Users in numbers: signed in, connected, talking."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.chaos.readying import SERVICES, services_back
from tests.chaos.user import ChaosUser, Script
from tests.harness.stack import Stack

GATEWAYS = SERVICES["gateway"]
HANDSHAKES_AT_ONCE = 50
KINDS = ("lorem", "emoji", "cjk")


def sockets_of(stack: Stack) -> tuple[str, ...]:
    """The WebSocket address of each gateway."""
    return tuple(f"ws://127.0.0.1:{stack.port_base + 10 * index}/ws" for index in range(GATEWAYS))


def sign_in(stack: Stack, user: str) -> str:
    """A token for a named user."""
    request = urllib.request.Request(
        f"{stack.http_url}/v1/tokens",
        data=json.dumps({"user": user}).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["token"]


@asynccontextmanager
async def crowd(
    stack: Stack, names: Sequence[str], chance: random.Random, gateway: int | None = None
) -> AsyncIterator[list[ChaosUser]]:
    """That many users, connected to any gateway or to the one given; gone at the end."""
    await services_back(stack)
    tokens = await asyncio.to_thread(lambda: [sign_in(stack, name) for name in names])
    users = [
        ChaosUser(name, token, sockets_of(stack), random.Random(chance.random()))
        for name, token in zip(names, tokens, strict=True)
    ]
    if gateway is not None:
        for user in users:
            user.prefer(gateway)
    async with asyncio.TaskGroup() as tasks:
        # In a group, so that a client's own bug ends the run instead of looking like a silent server.
        running = []
        try:
            async with asyncio.timeout(60):
                for start in range(0, len(users), HANDSHAKES_AT_ONCE):
                    batch = users[start : start + HANDSHAKES_AT_ONCE]
                    running += [tasks.create_task(user.run()) for user in batch]
                    await asyncio.gather(*(user.online() for user in batch))
            yield users
        finally:
            for task in running:
                task.cancel()


def any_script(chance: random.Random) -> Script:
    """A reply of two to five seconds in one of the texts that naive cutting breaks."""
    return Script(
        tokens=chance.randint(40, 100),
        tokens_per_s=20,
        ttft_ms=chance.randint(50, 400),
        text=chance.choice(KINDS),
        seed=chance.randrange(2**31),
    )


async def talk(user: ChaosUser, chance: random.Random, enough: asyncio.Event) -> None:
    """Ask, read, think, until it is enough; now and then a second message in mid-answer."""
    while not enough.is_set():
        asked = [await user.say(any_script(chance))]
        if chance.random() < 0.15:
            await asyncio.sleep(chance.uniform(0, 1))
            asked.append(await user.say(any_script(chance)))
        for message_id in asked:
            await user.ended(message_id)
        await asyncio.sleep(chance.uniform(0.5, 4))
