"""Worker processes that have started before they are measured."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.config import Config

from tests.chaos.processes import Processes
from tests.harness.stack import Stack

FUNCTION = "burstchat-burst-worker:live"
WITHIN_S = 180.0


async def warm_workers(stack: Stack, count: int) -> float:
    """Have the emulator run `count` processes of the worker function; answers the seconds that it took.

    Invocations that overlap get a process each, and an empty batch is over at once.
    """
    began_s = time.monotonic()
    processes = Processes(stack.state_dir)
    while len(await asyncio.to_thread(processes.alive, "burst_worker")) < count:
        assert time.monotonic() - began_s < WITHIN_S, "the worker function does not start"
        await asyncio.to_thread(_invoke_together, stack, count)
    return time.monotonic() - began_s


def _invoke_together(stack: Stack, count: int) -> None:
    client: Any = stack.aws("lambda", Config(read_timeout=WITHIN_S, max_pool_connections=count))
    with ThreadPoolExecutor(count) as pool:
        for _ in range(count):
            pool.submit(client.invoke, FunctionName=FUNCTION, Payload=b'{"Records": []}')
