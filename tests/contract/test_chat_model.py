"""What every ChatModel does: the scripted twin, and both clients of the Anthropic SDK against servers on sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import aiohttp
import pytest
from aiohttp import web

from infra.local.model_server.planning import Pace
from infra.local.model_server.server import ModelServer
from shared.adapters.anthropic_model import AnthropicChatModel
from shared.adapters.bedrock_model import BedrockChatModel
from shared.clock import SystemClock
from shared.contracts.model import ModelEvent, ModelStopped, Prompt, PromptMessage, TextDelta
from shared.errors import (
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    TransientError,
)
from shared.ports import ChatModel
from tests.fakes.bedrock_server import (
    CREDENTIAL,
    BedrockServer,
    Piece,
    Reset,
    Silence,
    delta,
    event,
    exception,
)
from tests.fakes.clock import FakeClock
from tests.fakes.model import CutOff, FakeModel, Forever, Step

Scenario = Literal[
    "whole", "cut", "abort", "overloaded", "overloaded_late", "rate_limit", "stall",
    "invalid",
]  # fmt: skip
SCRIPTS: dict[Scenario, list[Step]] = {
    "whole": ["One ", "two ", "three"],
    "cut": ["One ", CutOff()],
    "abort": ["One ", ModelDisconnected("reset")],
    "overloaded": [ModelOverloaded("529")],
    "overloaded_late": ["One ", ModelOverloaded("error event")],
    "rate_limit": [ModelRateLimited("429", retry_after_ms=7_000)],
    "stall": ["One ", Forever()],
    "invalid": [ModelRejected("400")],
}
SIM: dict[Scenario, str] = {
    "whole": "",
    "cut": "fault=end_after:1",
    "abort": "fault=abort_after:1",
    "overloaded": "fault=overloaded",
    "overloaded_late": "fault=overloaded_after:1",
    "rate_limit": "fault=rate_limit retry_after_s=7",
    "stall": "fault=stall_after:1",
    "invalid": "fault=invalid_request",
}


BEGUN = event("message_start", message={"usage": {"input_tokens": 9, "output_tokens": 1}})
STOPPED = event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}
) + event("message_stop")
#: Bedrock does not say when to come back, so its refusal for rate carries no hint.
BEDROCK: dict[Scenario, tuple[list[Piece], tuple[int, str] | None]] = {
    "whole": ([BEGUN + delta("One "), delta("two") + STOPPED], None),
    "cut": ([BEGUN + delta("One ")], None),
    "abort": ([BEGUN + delta("One "), Reset()], None),
    "overloaded": ([], (503, "ServiceUnavailableException")),
    "overloaded_late": ([BEGUN + delta("One ") + exception("serviceUnavailableException")], None),
    "rate_limit": ([], (429, "ThrottlingException")),
    "stall": ([BEGUN + delta("One "), Silence()], None),
    "invalid": ([], (400, "ValidationException")),
}


@dataclass
class Rig:
    model: ChatModel
    prompt: Prompt
    ended: Callable[[], object]  # awaitable: how the provider saw its call end
    retry_after_ms: int | None = 7_000  # of a refusal for rate


def prompt(text: str) -> Prompt:
    return Prompt(
        model="claude-offline",
        system="You help readers.",
        messages=(PromptMessage("user", text),),
        max_tokens=100,
    )


@asynccontextmanager
async def in_memory(scenario: Scenario) -> AsyncIterator[Rig]:
    model = FakeModel(FakeClock(), SCRIPTS[scenario])

    async def ended() -> str:
        return model.calls[0].ended

    yield Rig(model, prompt("Hi"), ended)


@asynccontextmanager
async def anthropic_sdk(scenario: Scenario) -> AsyncIterator[Rig]:
    server = ModelServer(now_ms=SystemClock().now_ms, pace=Pace(0, 0))
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    model = AnthropicChatModel(api_key="offline", clock=SystemClock(), base_url=url)

    async def ended() -> str:
        async with aiohttp.ClientSession() as http, asyncio.timeout(5):
            while True:
                async with http.get(f"{url}/sim/calls", params={"id": "it"}) as response:
                    [call] = (await response.json())["calls"]
                if call["ended"] != "running":
                    names = {"client_closed": "closed", "fault": "failed"}
                    return str(names.get(call["ended"], call["ended"]))
                await asyncio.sleep(0.005)

    script = f"/sim tokens=5 ttft_ms=0 tokens_per_s=0 id=it {SIM[scenario]}"
    yield Rig(model, prompt(script), ended)
    await model.close()
    await runner.cleanup()


@asynccontextmanager
async def bedrock_sdk(scenario: Scenario) -> AsyncIterator[Rig]:
    pieces, refusal = BEDROCK[scenario]
    double = BedrockServer(pieces, refusal)
    async with double.serving() as server:
        model = BedrockChatModel(region="eu-west-1", clock=SystemClock(), base_url=server.url)
        yield Rig(model, prompt("Hi"), double.ended, retry_after_ms=None)
        await model.close()


@pytest.fixture(
    params=[in_memory, anthropic_sdk, bedrock_sdk], ids=["fake", "anthropic", "bedrock"]
)
def rig(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Scenario], object]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIAL.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIAL.secret_access_key)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    return request.param


async def read(rig: Rig, seen: list[ModelEvent]) -> None:
    async with rig.model.stream(rig.prompt) as events:
        async for group in events:
            seen.extend(group)


def has_text(events: list[ModelEvent]) -> bool:
    return any(isinstance(event, TextDelta) for event in events)


async def test_a_whole_reply_ends_with_its_stop(rig) -> None:
    seen: list[ModelEvent] = []
    async with rig("whole") as running:
        await read(running, seen)
        ended = await running.ended()

    assert has_text(seen)
    assert isinstance(seen[-1], ModelStopped)
    assert seen[-1].stop_reason == "end_turn"
    assert seen[-1].usage.output_tokens > 0
    assert sum(isinstance(event, ModelStopped) for event in seen) == 1
    assert ended == "completed"


@pytest.mark.parametrize(
    ("scenario", "expected", "text_first"),
    [
        ("cut", ModelDisconnected, True),
        ("abort", ModelDisconnected, True),
        ("overloaded", ModelOverloaded, False),
        ("overloaded_late", ModelOverloaded, True),
        ("rate_limit", ModelRateLimited, False),
        ("invalid", ModelRejected, False),
    ],
)
async def test_a_failed_reply_gives_its_text_first_and_then_the_error(
    rig, scenario: Scenario, expected: type[Exception], text_first: bool
) -> None:
    seen: list[ModelEvent] = []
    async with rig(scenario) as running:
        with pytest.raises(expected) as caught:
            await read(running, seen)

    assert has_text(seen) == text_first
    if scenario == "rate_limit":
        assert isinstance(caught.value, TransientError)
        assert caught.value.retry_after_ms == running.retry_after_ms


async def test_leaving_the_context_ends_the_call_at_the_provider(rig) -> None:
    async with rig("stall") as running:
        async with running.model.stream(running.prompt) as events:
            async for group in events:
                if has_text(list(group)):
                    break

        assert await running.ended() == "closed"


async def test_cancelling_the_reader_ends_the_call_at_the_provider(rig) -> None:
    seen: list[ModelEvent] = []
    async with rig("stall") as running:
        task = asyncio.create_task(read(running, seen))
        async with asyncio.timeout(5):
            while not has_text(seen):
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await running.ended() == "closed"
