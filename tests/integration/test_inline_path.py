"""A user's message from the socket to the model and back: gateway and orchestrator with their real dependencies."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from services.gateway.composition import build_gateway
from services.http_server import listen
from services.lifecycle import StopSignals
from services.orchestrator.composition import run_orchestrator
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.settings import load_settings
from shared.telemetry import Metrics
from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.real_stack import TERMINAL, aws_environment, real_stack
from tests.fakes.valkey import running_valkey

CLOCK, RANDOMNESS = SystemClock(), SystemRandomness()


def free_port() -> int:
    with listen("127.0.0.1", 0, "a free port") as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
async def chat_url(
    emulator: Emulator,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[str]:
    for variable, value in aws_environment().items():
        monkeypatch.setenv(variable, value)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    signals = StopSignals()
    with running_valkey() as server:
        async with real_stack(emulator, server.connection_url, name) as stack:
            port = free_port()
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
                await until_open(port, orchestrator)
                yield f"ws://127.0.0.1:{gateway.public.port}/ws"
                signals.receive()
                await serving
                await orchestrator


async def until_open(port: int, orchestrator: asyncio.Task[None]) -> None:
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


async def ask(client: ClientConnection, message_id: str, text: str) -> list[dict[str, Any]]:
    """Send one message; every frame until its turn has ended."""
    await client.send(json.dumps({"type": "chat.send", "message_id": message_id, "text": text}))
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not frames or frames[-1]["type"] not in TERMINAL:
            frames.append(json.loads(await client.recv()))
    return frames


async def test_a_message_is_answered_on_the_same_socket_and_remembered(chat_url: str):
    async with connect(chat_url) as client:
        ready = json.loads(await client.recv())
        first = await ask(client, "m1", "Which volume of Berserk should I start with?")
        second = await ask(client, "m2", "/sim tokens=5")
        await client.send(json.dumps({"type": "chat.history", "limit": 5}))
        history = json.loads(await client.recv())

    assert ready["type"] == "session.ready"
    assert (first[0]["type"], first[0]["path"]) == ("chat.accepted", "inline")
    logged = [frame for frame in first if "seq" in frame]
    assert [frame["seq"] for frame in logged] == list(range(len(logged)))
    text = "".join(frame.get("delta", "") for frame in logged)
    assert logged[-1]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert second[-1]["type"] == "chat.response.completed"
    assert [turn["message_id"] for turn in history["turns"]] == ["m2", "m1"]
    assert history["turns"][1]["assistant_text"] == text


async def test_sending_a_message_again_starts_no_second_turn(chat_url: str):
    async with connect(chat_url) as client:
        await client.recv()
        first = await ask(client, "m1", "/sim tokens=5")
        again = await ask(client, "m1", "/sim tokens=5")
    assert again[0]["duplicate"] is True
    assert again[0]["turn_id"] == first[0]["turn_id"]
    assert [frame for frame in again if "seq" in frame] == [
        frame for frame in first if "seq" in frame
    ]
