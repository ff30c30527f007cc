"""The function's handler as the platform calls it, with real dependencies in another thread."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from functions.burst_worker.composition import burst_worker
from functions.burst_worker.environment import Environment
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.turns import TurnRequest, encode_turn
from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.real_stack import RealStack, aws_environment, real_stack
from tests.fakes.valkey import ask, running_valkey

T = TypeVar("T")


class Context:
    function_version = "3"
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 75_000


class Elsewhere:
    """A loop in another thread: the world outside of the function goes on while the function runs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class World:
    def __init__(self, elsewhere: Elsewhere, stack: RealStack, ports: Any, server: Any) -> None:
        self.elsewhere = elsewhere
        self.stack = stack
        self.ports = ports
        self.server = server
        self.environment = Environment(burst_worker)

    def accept(self, text: str, *, session: str, connection: str) -> TurnRequest:
        async def accept() -> TurnRequest:
            request = self.stack.turn(text, session=session)
            follower = self.stack.follower(connection)
            await self.ports.registry.renew_owner(follower.owner)
            await self.ports.queue.accept(request, follower)
            await self.ports.queue.mark_placed(request.ref, "burst", request.accepted_at_ms)
            return request

        return self.elsewhere.run(accept())

    def invoke(self, *bodies: str) -> list[str]:
        records = [
            {
                "messageId": f"id-{number}",
                "body": body,
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:x-burst",
            }
            for number, body in enumerate(bodies)
        ]
        answer = self.environment.invoke({"Records": records}, Context())
        assert list(answer) == ["batchItemFailures"]
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def frames(self, connection: str) -> list[dict[str, Any]]:
        return self.stack.push_port.frames.get(connection, [])


@pytest.fixture
def _logging_of_the_test_run() -> Iterator[None]:
    """The composition root configures the process's logging; put the test run's back."""
    root, ours = logging.getLogger(), logging.getLogger("burstchat")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def world(
    _logging_of_the_test_run: None,
    emulator: Emulator,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    elsewhere, opened = Elsewhere(), AsyncExitStack()
    with running_valkey() as server:

        async def open_world() -> World:
            stack = await opened.enter_async_context(
                real_stack(emulator, server.connection_url, name)
            )
            for variable, value in {**aws_environment(), **stack.environ}.items():
                monkeypatch.setenv(variable, value)
            settings = stack.settings("burst_worker")
            settings = replace(
                settings, gateway=replace(settings.gateway, intake_urls=("http://127.0.0.1:1",))
            )
            ports = await opened.enter_async_context(
                open_gateway_ports(settings, SystemClock(), SystemRandomness())
            )
            return World(elsewhere, stack, ports, server)

        made = elsewhere.run(open_world())
        try:
            yield made
        finally:
            made.environment.shut_down()
            elsewhere.run(opened.aclose())
            elsewhere.stop()


def message(request: TurnRequest) -> str:
    return encode_turn(request).decode()


def test_a_batch_is_answered_side_by_side_and_every_frame_has_left_when_it_returns(world: World):
    first = world.accept("Which volume of Berserk comes first?", session="a", connection="ca")
    second = world.accept("/sim tokens=5", session="b", connection="cb")
    assert world.invoke(message(first), "{broken", message(second)) == []

    for connection in ("ca", "cb"):
        frames = world.frames(connection)
        assert [frame["seq"] for frame in frames] == list(range(len(frames)))
        assert (frames[0]["type"], frames[0]["path"]) == ("chat.response.started", "burst")
        assert frames[-1]["type"] == "chat.response.completed"
    (letter,) = world.stack.emulator.messages(world.stack.environ["BURSTCHAT_BURST_DLQ_URL"])
    assert '"class":"malformed"' in letter["Body"]
    assert '"raw":"{broken"' in letter["Body"]


@pytest.mark.case("B-03")
def test_a_second_delivery_is_acknowledged_without_a_second_answer(world: World):
    request = world.accept("/sim tokens=3", session="a", connection="ca")
    assert world.invoke(message(request)) == []
    seen = len(world.frames("ca"))
    assert world.invoke(message(request)) == []
    assert world.frames("ca")[seen:] == [] or all(
        frame["seq"] == world.frames("ca")[seen - 1]["seq"] for frame in world.frames("ca")[seen:]
    )


@pytest.mark.case("B-34")
def test_sockets_that_died_during_a_freeze_are_replaced_within_the_invocation(world: World):
    first = world.accept("/sim tokens=3", session="a", connection="ca")
    assert world.invoke(message(first)) == []
    ask(world.server, "CLIENT KILL TYPE normal SKIPME yes")

    second = world.accept("/sim tokens=3", session="a", connection="cb")
    assert world.invoke(message(second)) == []
    frames = world.frames("cb")
    assert [frame["seq"] for frame in frames] == list(range(len(frames)))
    assert {frame["attempt"] for frame in frames} == {1}
    assert frames[-1]["type"] == "chat.response.completed"


def test_the_next_head_of_the_session_is_sent_to_burst(world: World):
    first = world.accept("/sim tokens=3", session="a", connection="ca")
    second = world.accept("/sim tokens=3", session="a", connection="ca")
    assert world.invoke(message(first)) == []
    (sent,) = world.stack.emulator.messages(world.stack.environ["BURSTCHAT_BURST_QUEUE_URL"])
    assert second.turn_id in sent["Body"]
    assert world.invoke(sent["Body"]) == []
    assert [frame["type"] for frame in world.frames("ca")].count("chat.response.completed") == 2


def test_log_lines_name_turn_worker_and_version_and_nothing_of_the_turn(
    world: World, capfd: pytest.CaptureFixture[str]
):
    request = world.accept("tell me a secret word", session="a", connection="ca")
    assert world.invoke(message(request)) == []
    written = capfd.readouterr().out
    (claimed,) = [line for line in written.splitlines() if '"event":"turn.claimed"' in line]
    assert f'"turn_id":"{request.turn_id}"' in claimed
    assert '"function_version":"3"' in claimed
    assert '"worker":"burst_worker-3-' in claimed
    assert "secret word" not in written
