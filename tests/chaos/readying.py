"""A stack as it has to be before anything is measured: services up, worker processes started."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.config import Config

from infra.local.readiness import is_healthy
from tests.chaos.processes import Processes
from tests.harness.stack import Stack

FUNCTION = "burstchat-burst-worker:live"
WITHIN_S = 180.0
BACK_WITHIN_S = 40.0
SERVICES = {"gateway": 2, "orchestrator": 2}
FLEET: dict[str, str | int] = {
    "gateways": 2,
    "orchestrators": 2,
    # However busy this machine is: processes shall hold turns when they are killed.
    "lag_high_ms": 5_000,
    "cpu_high_share": "1.0",
}
"""Knobs of the stack."""
ROOMY_FLEET = {**FLEET, "inline_slots": 100}
"""Where many answers are under way at once."""


async def services_back(stack: Stack) -> None:
    """Wait until every gateway and orchestrator takes work again."""
    processes = Processes(stack.state_dir)

    def are_ready() -> bool:
        return all(
            len(running := processes.alive(role)) == count
            and all(is_healthy(target.port, "/readyz") for target in running)
            for role, count in SERVICES.items()
        )

    async with asyncio.timeout(BACK_WITHIN_S):
        while not await asyncio.to_thread(are_ready):
            await asyncio.sleep(0.2)


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


def limit_retries(stack: Stack, concurrency: int) -> None:
    """Have takeovers run in fewer processes at once, so that fewer have to be started before."""
    client = stack.aws("lambda")
    for trigger in client.list_event_source_mappings()["EventSourceMappings"]:
        if trigger["EventSourceArn"].endswith("-retry"):
            client.update_event_source_mapping(
                UUID=trigger["UUID"], ScalingConfig={"MaximumConcurrency": concurrency}
            )


def _invoke_together(stack: Stack, count: int) -> None:
    client: Any = stack.aws("lambda", Config(read_timeout=WITHIN_S, max_pool_connections=count))
    with ThreadPoolExecutor(count) as pool:
        for _ in range(count):
            pool.submit(client.invoke, FunctionName=FUNCTION, Payload=b'{"Records": []}')
