"""A user's message from the socket to the model and back: gateway and orchestrator with their real dependencies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect

from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.inline_path import ask, inline_chat
from tests.fakes.real_stack import aws_environment, real_stack
from tests.fakes.valkey import running_valkey


@pytest.fixture
async def chat_url(
    emulator: Emulator,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[str]:
    for variable, value in aws_environment().items():
        monkeypatch.setenv(variable, value)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    with running_valkey() as server:
        async with (
            real_stack(emulator, server.connection_url, name) as stack,
            inline_chat(stack) as url,
        ):
            yield url


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
