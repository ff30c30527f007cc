"""The queue_runner as it runs, with real Valkey, queues, tables, knowledge and model calls over real sockets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from services.lifecycle import StopSignals
from services.orchestrator.queue_runner.composition import run_queue_runner
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import OwnerId
from shared.contracts.ledger import AcceptedDetached, Follower
from shared.contracts.turns import QueueName, TurnRequest
from shared.errors import ConfigurationError
from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.real_stack import RealStack, aws_environment, real_stack
from tests.fakes.valkey import running_valkey

CLOCK, RANDOMNESS = SystemClock(), SystemRandomness()
PRIORITY = {"deferred": "normal", "background": "low"}
QUEUES: tuple[QueueName, ...] = ("burst", "retry", "deferred", "background")


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


class World:
    """The queues and the ledger as a gateway sees them, and queue_runners that a test starts."""

    def __init__(self, stack: RealStack, ports: Any) -> None:
        self.stack = stack
        self.ports = ports
        self.sqs = stack.emulator.client("sqs")
        self._sessions = uuid.uuid4().hex[:8]

    def turn(self, text: str, session: str, **fields: Any) -> TurnRequest:
        """A turn in a session of this test alone."""
        return self.stack.turn(text, session=f"{self._sessions}-{session}", **fields)

    async def enqueue(self, queue: QueueName, text: str, *, session: str) -> TurnRequest:
        """Accept a detached turn and send it to its queue."""
        request = self.turn(text, session, detached=True, priority=PRIORITY.get(queue, "high"))
        answer = await self.ports.queue.accept(request, None)
        if queue in PRIORITY:
            assert isinstance(answer, AcceptedDetached)
        await self.ports.turn_queue.send(queue, request)
        await self.ports.queue.mark_placed(request.ref, "queue", CLOCK.now_ms())
        return request

    async def ended(self, *turns: TurnRequest, within_s: float = 30) -> list[Any]:
        """The states of the turns once all have ended."""
        async with asyncio.timeout(within_s):
            while True:
                states = [await self.ports.queue.state(turn.ref) for turn in turns]
                if all(state is not None and state.is_ended for state in states):
                    return states
                await asyncio.sleep(0.02)

    async def running(self, turn: TurnRequest) -> None:
        async with asyncio.timeout(30):
            while (await self.ports.queue.state(turn.ref)).status != "running":
                await asyncio.sleep(0.02)

    async def calls(self, call_id: str) -> list[dict[str, Any]]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.stack.model_url}/sim/calls?id={call_id}") as answer,
        ):
            return (await answer.json())["calls"]

    def depth(self, queue: str) -> tuple[int, int]:
        """Visible messages and those in flight."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        url = self.stack.environ[f"BURSTCHAT_{queue.upper()}_URL"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])

    async def emptied(self, *queues: str) -> None:
        async with asyncio.timeout(10):
            while any(self.depth(queue) != (0, 0) for queue in queues):
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def queue_runner(self, **knobs: Any) -> AsyncIterator[Running]:
        settings = self.stack.settings("queue_runner")
        limits = {"queue_runner_port": free_port(), "queue_poll_s": 1, **knobs}
        settings = replace(settings, queue_runner=replace(settings.queue_runner, **limits))
        running = Running(limits["queue_runner_port"])
        running.task = asyncio.create_task(
            run_queue_runner(settings, CLOCK, RANDOMNESS, running.signals)
        )
        await running.until_ready()
        try:
            yield running
        finally:
            running.signals.receive()
            if not running.is_expected_to_crash:
                await running.task


class Running:
    """A queue_runner in this loop."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.signals = StopSignals()
        self.task: asyncio.Task[None]
        self.is_expected_to_crash = False

    async def health(self, path: str) -> int:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status

    async def until_ready(self) -> None:
        async with asyncio.timeout(20):
            while not self.task.done():
                try:
                    assert await self.health("/readyz") == 200
                    return
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.01)
        self.task.result()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def world(stack: RealStack) -> AsyncIterator[World]:
    settings = stack.settings("queue_runner")
    gateway = replace(settings.gateway, intake_urls=("http://127.0.0.1:1",))
    async with open_gateway_ports(replace(settings, gateway=gateway), CLOCK, RANDOMNESS) as ports:
        yield World(stack, ports)


async def test_detached_turns_of_both_priorities_are_answered_stored_and_acknowledged(
    world: World,
):
    normal = await world.enqueue("deferred", "Which volume of Berserk comes first?", session="a")
    low = await world.enqueue("background", "/sim tokens=5", session="b")
    async with world.queue_runner():
        states = await world.ended(normal, low)
        await world.emptied("deferred_queue", "background_queue")

    assert [state.status for state in states] == ["completed", "completed"]
    stored = await world.ports.store.get(normal.ref)
    assert "Berserk" in stored.assistant_text
    log = await world.ports.followers.follow(
        low.ref, None, attempt=None, after_seq=-1, now_ms=CLOCK.now_ms()
    )
    assert b'"path":"queue"' in bytes(log.frames[0])


async def test_deferred_gets_four_turns_for_each_of_background(world: World):
    turns = {
        queue: [
            await world.enqueue(
                queue, "/sim tokens=2 ttft_ms=50 id=weights", session=f"{queue}-{number}"
            )
            for number in range(40)
        ]
        for queue in ("deferred", "background")
    }
    async with world.queue_runner(queue_slots=5, queue_consumers=3):
        await world.ended(*turns["deferred"], within_s=60)
        states = [await world.ports.queue.state(turn.ref) for turn in turns["background"]]
        early = sum(state.status != "waiting" for state in states)
        await world.ended(*turns["background"], within_s=60)
        await world.emptied("deferred_queue", "background_queue")

    assert 6 <= early <= 18, "about a quarter of 40, and never none"
    assert len(await world.calls("weights")) == 80


@pytest.mark.case("B-03")
async def test_a_turn_that_outlasts_the_visibility_runs_once(world: World):
    turn = await world.enqueue(
        "deferred", "/sim tokens=60 tokens_per_s=10 id=long-visibility", session="a"
    )
    async with world.queue_runner(queue_visibility_s=3, queue_extend_s=1):
        await world.running(turn)
        seen = set()
        while not (await world.ports.queue.state(turn.ref)).is_ended:
            seen.add(world.depth("deferred_queue"))
            await asyncio.sleep(0.1)
        await world.emptied("deferred_queue")

    assert seen == {(0, 1)}, "hidden all the time"
    assert len(await world.calls("long-visibility")) == 1


@pytest.mark.case("B-03")
async def test_a_second_delivery_is_acknowledged_without_a_second_run(world: World):
    turn = await world.enqueue("deferred", "/sim tokens=30 tokens_per_s=20 id=twice", session="a")
    async with world.queue_runner():
        await world.running(turn)
        await world.ports.turn_queue.send("deferred", turn)
        await world.ended(turn)
        await world.emptied("deferred_queue")
    assert len(await world.calls("twice")) == 1


async def test_a_turn_behind_another_of_its_session_is_acked_and_comes_again_as_head(
    world: World,
):
    first = await world.enqueue("deferred", "/sim tokens=30 tokens_per_s=30 id=one", session="a")
    async with world.queue_runner():
        await world.running(first)
        second = await world.enqueue("background", "/sim tokens=2 id=two keep=1", session="a")
        await world.emptied("background_queue")
        assert (await world.ports.queue.state(second.ref)).status == "waiting"
        await world.ended(first, second)
        await world.emptied("deferred_queue", "background_queue")

    (call,) = await world.calls("two")
    (before,) = await world.calls("one")
    assert call["started_at_ms"] >= before["ended_at_ms"]


async def test_a_malformed_message_is_a_dead_letter_with_its_raw_body(world: World):
    url = world.stack.environ["BURSTCHAT_DEFERRED_QUEUE_URL"]
    world.sqs.send_message(QueueUrl=url, MessageBody="{broken")
    async with world.queue_runner():
        await world.emptied("deferred_queue")
    (letter,) = world.stack.emulator.messages(world.stack.environ["BURSTCHAT_DEFERRED_DLQ_URL"])
    assert '"class":"malformed"' in letter["Body"]
    assert '"raw":"{broken"' in letter["Body"]


@pytest.mark.case("B-07")
async def test_a_signal_lets_running_turns_end_and_receives_no_more(world: World):
    turn = await world.enqueue("deferred", "/sim tokens=40 tokens_per_s=20", session="a")
    async with world.queue_runner() as running:
        await world.running(turn)
        running.signals.receive()
        await asyncio.sleep(0)
        assert await running.health("/readyz") == 503
        assert await running.health("/healthz") == 200
        await asyncio.sleep(1.2)  # the open receives end
        late = await world.enqueue("deferred", "/sim tokens=1", session="b")
        await running.task

    assert (await world.ports.queue.state(turn.ref)).status == "completed"
    assert (await world.ports.queue.state(late.ref)).status == "waiting"
    assert world.depth("deferred_queue") == (1, 0)


@pytest.mark.case("B-07")
async def test_what_outlives_the_drain_is_given_back_and_goes_on_elsewhere(world: World):
    turn = await world.enqueue(
        "deferred", "/sim tokens=160 tokens_per_s=20 id=given-back", session="a"
    )
    async with world.queue_runner(queue_runner_drain_ms=4_000) as running:
        await world.running(turn)
        running.signals.receive()
        await running.task
        assert world.depth("deferred_queue") == (1, 0)

    async with world.queue_runner():
        (state,) = await world.ended(turn)
        await world.emptied("deferred_queue")
    assert (state.status, state.attempt) == ("completed", 2)
    cut, whole = await world.calls("given-back")
    assert (cut["ended"], whole["ended"]) == ("client_closed", "completed")


async def test_one_consumers_crash_ends_the_process_after_its_turns(world: World):
    turn = await world.enqueue("deferred", "/sim tokens=40 tokens_per_s=20", session="a")
    async with world.queue_runner() as running:
        running.is_expected_to_crash = True
        await world.running(turn)
        world.sqs.delete_queue(QueueUrl=world.stack.environ["BURSTCHAT_BACKGROUND_QUEUE_URL"])
        with pytest.raises(ConfigurationError):
            await running.task
    assert (await world.ports.queue.state(turn.ref)).status == "completed"


@pytest.mark.parametrize(("consumer", "drained"), [("ecs", True), ("lambda", False)])
async def test_burst_and_retry_are_drained_where_lambda_does_not(
    world: World, consumer: str, drained: bool
):
    requests = []
    for queue in ("burst", "retry"):
        request = world.turn("/sim tokens=3", queue)
        follower = Follower(
            world.stack.follower(f"c-{queue}").connection_id,
            world.stack.push_server.url,
            OwnerId("gateway-1"),
        )
        await world.ports.registry.renew_owner(follower.owner)
        await world.ports.queue.accept(request, follower)
        await world.ports.turn_queue.send(queue, request)
        await world.ports.queue.mark_placed(request.ref, "burst", CLOCK.now_ms())
        requests.append(request)
    other = await world.enqueue("deferred", "/sim tokens=1", session="other")
    async with world.queue_runner(burst_consumer=consumer):
        await world.ended(other)
        if drained:
            await world.ended(*requests)
            await world.emptied(*(f"{queue}_queue" for queue in QUEUES))

    if drained:
        for queue in ("burst", "retry"):
            frames = await world.stack.push_port.until_ended(f"c-{queue}")
            assert (frames[0]["path"], frames[-1]["type"]) == ("queue", "chat.response.completed")
        assert (await world.ports.load.read()).burst_waiting == 0
    else:
        assert [world.depth(f"{queue}_queue") for queue in ("burst", "retry")] == [(1, 0), (1, 0)]


def start_process(stack: RealStack, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "services.orchestrator.queue_runner"],
        env={"PATH": os.defpath, **aws_environment(), **stack.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.case("B-07")
async def test_the_process_stops_in_order_on_sigterm_and_exits_otherwise_when_it_crashes(
    stack: RealStack,
):
    def run(sabotage: bool) -> tuple[int, str]:
        process = start_process(
            stack, BURSTCHAT_QUEUE_RUNNER_PORT=str(free_port()), BURSTCHAT_QUEUE_POLL_S="1"
        )
        assert process.stdout is not None
        while "queue_runner.ready" not in next(process.stdout):
            pass
        if sabotage:
            url = stack.environ["BURSTCHAT_DEFERRED_QUEUE_URL"]
            stack.emulator.client("sqs").delete_queue(QueueUrl=url)
        else:
            process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
        assert "process.drained" in rest
        return process.returncode, errors

    assert await asyncio.to_thread(run, False) == (0, "")
    code, errors = await asyncio.to_thread(run, True)
    assert code != 0
    assert errors.startswith("cannot start: ") or "Traceback" not in errors
