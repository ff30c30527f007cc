"""A gateway and an orchestrator in this loop with their real dependencies: a chat over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from websockets.asyncio.client import ClientConnection

from services.gateway.composition import build_gateway
from services.http_server import listen
from services.lifecycle import StopSignals
from services.orchestrator.composition import run_orchestrator
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.settings import load_settings
from shared.telemetry import Metrics
from tests.fakes.real_stack import TERMINAL, RealStack

CLOCK, RANDOMNESS = SystemClock(), SystemRandomness()


@asynccontextmanager
async def inline_chat(stack: RealStack) -> AsyncIterator[str]:
    """The address of the chat; both processes are stopped in order afterwards."""
    signals = StopSignals()
    port = _free_port()
    environ = {
        **stack.environ,
        "BURSTCHAT_INTAKE_PORT": str(port),
        "BURSTCHAT_INTAKE_URLS": f"http://127.0.0.1:{port}",
        "BURSTCHAT_JWT_SECRET": "x" * 32,
        "BURSTCHAT_AUTH_MODE": "dev",
        "BURSTCHAT_INTAKE_TIMEOUT_MS": "5000",
    }
    orchestrator = asyncio.create_task(
        run_orchestrator(load_settings("orchestrator", environ), CLOCK, RANDOMNESS, signals)
    )
    settings = load_settings("gateway", environ)
    settings = replace(settings, gateway=replace(settings.gateway, gateway_drain_ms=100))
    async with open_gateway_ports(settings, CLOCK, RANDOMNESS) as ports:
        gateway = build_gateway(
            settings,
            ports,
            public_listener=listen("127.0.0.1", 0, "BURSTCHAT_PUBLIC_PORT"),
            private_listener=listen("127.0.0.1", 0, "BURSTCHAT_PRIVATE_PORT"),
            clock=CLOCK,
            randomness=RANDOMNESS,
            metrics=Metrics("burstchat", "gateway", CLOCK),
        )
        serving = asyncio.create_task(gateway.run(signals))
        await _until_open(port, orchestrator)
        yield f"ws://127.0.0.1:{gateway.public.port}/ws"
        signals.receive()
        await serving
        await orchestrator


async def ask(client: ClientConnection, message_id: str, text: str) -> list[dict[str, Any]]:
    """Send one message; every frame until its turn has ended."""
    await client.send(json.dumps({"type": "chat.send", "message_id": message_id, "text": text}))
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not frames or frames[-1]["type"] not in TERMINAL:
            frames.append(json.loads(await client.recv()))
    return frames


def _free_port() -> int:
    with listen("127.0.0.1", 0, "a free port") as probe:
        return int(probe.getsockname()[1])


async def _until_open(port: int, orchestrator: asyncio.Task[None]) -> None:
    """Return when the orchestrator takes connections."""
    while not orchestrator.done():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            await writer.wait_closed()
            return
    orchestrator.result()
