"""The orchestrator as it runs, with real Valkey, queues, tables, knowledge and model calls over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from services.lifecycle import StopSignals
from services.orchestrator.composition import run_orchestrator
from shared.adapters.http_session import HttpSession
from shared.adapters.http_turn_intake import HttpTurnIntake
from shared.bootstrap.adapters import push_credential
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.ledger import AcceptedAsHead, AcceptedAsWaiting
from shared.errors import DependencyUnavailable
from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.real_stack import RealStack, aws_environment, real_stack
from tests.fakes.valkey import running_valkey

CLOCK, RANDOMNESS = SystemClock(), SystemRandomness()


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.connection_url


@pytest.fixture
async def stack(
    emulator: Emulator,  # noqa: F811
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[RealStack]:
    for name, value in aws_environment().items():
        monkeypatch.setenv(name, value)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    async with real_stack(emulator, valkey_url, name) as running:
        yield running


class Running:
    """An orchestrator in this loop, a gateway's ports beside it, and its door."""

    def __init__(self, stack: RealStack, ports: Any, intake: HttpTurnIntake, port: int) -> None:
        self.stack = stack
        self.ports = ports
        self.intake = intake
        self.port = port
        self.signals = StopSignals()
        self.task: asyncio.Task[None]

    async def send(self, text: str, *, session: str, connection: str) -> Any:
        """Accept and submit a turn as a gateway does; the intake's decision, or the ledger's answer."""
        request = self.stack.turn(text, session=session)
        answer = await self.ports.queue.accept(request, self.stack.follower(connection))
        if isinstance(answer, AcceptedAsHead):
            return await self.intake.submit(request)
        return answer

    async def health(self, path: str) -> int:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def running_orchestrator(stack: RealStack, *, slots: int = 8) -> AsyncIterator[Running]:
    port = free_port()
    settings = stack.settings("orchestrator")
    settings = replace(
        settings,
        orchestrator=replace(settings.orchestrator, intake_port=port, inline_slots=slots),
    )
    http = HttpSession()
    intake = HttpTurnIntake(
        http, [f"http://127.0.0.1:{port}"], push_credential(settings), CLOCK, timeout_ms=2_000
    )
    gateway = replace(settings.gateway, intake_urls=(f"http://127.0.0.1:{port}",))
    async with open_gateway_ports(replace(settings, gateway=gateway), CLOCK, RANDOMNESS) as ports:
        await ports.registry.renew_owner(stack.follower().owner)
        running = Running(stack, ports, intake, port)
        running.task = asyncio.create_task(
            run_orchestrator(settings, CLOCK, RANDOMNESS, running.signals)
        )
        await until_ready(running)
        try:
            yield running
        finally:
            running.signals.receive()
            await running.task
            await http.close()


async def until_ready(running: Running) -> None:
    # Connections wait in the backlog of the bound port, so one answer is enough.
    async with asyncio.timeout(20):
        while not running.task.done():
            try:
                assert await running.health("/readyz") == 200
                return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.01)
    running.task.result()


async def test_an_inline_turn_is_answered_stored_and_pushed(stack: RealStack):
    async with running_orchestrator(stack) as running:
        decision = await running.send(
            "Which volume of Berserk should I start with?", session="s1", connection="c1"
        )
        frames = await stack.push_port.until_ended("c1")
        turn_id = frames[0]["turn_id"]
        page = await running.ports.store.newest(stack.turn("", session="s1").session, limit=5)

    assert (decision.path, decision.reason) == ("inline", "free_slot")
    assert [frame["seq"] for frame in frames] == list(range(len(frames)))
    assert (frames[0]["type"], frames[0]["path"]) == ("chat.response.started", "inline")
    text = "".join(frame.get("delta", "") for frame in frames)
    end = frames[-1]
    assert end["type"] == "chat.response.completed"
    assert end["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert "Berserk" in text
    (stored,) = page.turns
    assert (stored.ref.turn_id, stored.assistant_text) == (turn_id, text)


async def test_the_next_head_runs_after_its_predecessor_and_sees_its_answer(stack: RealStack):
    async with running_orchestrator(stack) as running:
        await running.send("/sim tokens=20 tokens_per_s=100", session="s2", connection="c2")
        second = await running.send("/sim tokens=3 id=second keep=1", session="s2", connection="c2")
        frames = await stack.push_port.until_ended("c2", ends=2)
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{stack.model_url}/sim/calls?id=second") as answer,
        ):
            (call,) = (await answer.json())["calls"]

    assert second == AcceptedAsWaiting(1)
    turns = list(dict.fromkeys(frame["turn_id"] for frame in frames))
    assert [frame["turn_id"] for frame in frames] == sorted(
        (frame["turn_id"] for frame in frames), key=turns.index
    )
    first_text = "".join(frame.get("delta", "") for frame in frames if frame["turn_id"] == turns[0])
    assert first_text in str(call["body"]["messages"])


async def test_a_turn_without_a_slot_is_on_the_burst_queue(stack: RealStack):
    async with running_orchestrator(stack, slots=1) as running:
        await running.send("/sim tokens=10 tokens_per_s=20", session="s3", connection="c3")
        decision = await running.send("hello", session="s4", connection="c4")
        await stack.push_port.until_ended("c3")

    assert (decision.path, decision.reason) == ("burst", "no_slots")
    (message,) = stack.emulator.messages(stack.environ["BURSTCHAT_BURST_QUEUE_URL"])
    assert '"reason":"no_slots"' in message["Body"]


@pytest.mark.case("B-07")
async def test_a_signal_lets_running_turns_end_and_refuses_new_ones(stack: RealStack):
    async with running_orchestrator(stack) as running:
        await running.send("/sim tokens=40 tokens_per_s=40", session="s5", connection="c5")
        running.signals.receive()
        await asyncio.sleep(0)
        assert await running.health("/readyz") == 503
        assert await running.health("/healthz") == 200
        with pytest.raises(DependencyUnavailable):
            await running.send("hello", session="s6", connection="c6")
        await running.task
        frames = await stack.push_port.until_ended("c5")
    assert frames[-1]["type"] == "chat.response.completed"


def start_process(stack: RealStack, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "services.orchestrator"],
        env={"PATH": os.defpath, **aws_environment(), **stack.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.case("B-07")
async def test_the_process_stops_in_order_on_sigterm(stack: RealStack):
    process = start_process(stack, BURSTCHAT_INTAKE_PORT=str(free_port()))

    def until_stopped() -> tuple[list[str], str]:
        assert process.stdout is not None
        lines = [next(process.stdout)]
        while "orchestrator.ready" not in lines[-1]:
            lines.append(next(process.stdout))
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
        return [*lines, *rest.splitlines()], errors

    lines, errors = await asyncio.to_thread(until_stopped)
    assert process.returncode == 0
    assert errors == ""
    assert any("process.drained" in line for line in lines)


async def test_a_port_in_use_is_one_clear_line(stack: RealStack):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start_process(stack, BURSTCHAT_INTAKE_PORT=str(port))
        _, errors = await asyncio.to_thread(process.communicate, timeout=30)
    assert process.returncode == 78
    assert errors == (
        f"cannot start: BURSTCHAT_INTAKE_PORT={port}: another process listens on "
        f"127.0.0.1:{port} already.\n"
    )
