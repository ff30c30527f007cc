"""An assistant about something else: other kinds, intents, facts and prompt, and not a line of code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.inline_path import ask, inline_chat
from tests.fakes.real_stack import aws_environment, real_stack
from tests.fakes.valkey import running_valkey

WORKSHOP = Path(__file__).resolve().parents[1] / "examples" / "bicycle_repair"


async def test_a_bicycle_workshop_answers_from_its_own_documents(
    emulator: Emulator,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in aws_environment().items():
        monkeypatch.setenv(variable, value)
    with running_valkey() as server:
        async with (
            real_stack(emulator, server.connection_url, "workshop", WORKSHOP) as stack,
            inline_chat(stack) as url,
            connect(url) as client,
        ):
            await client.recv()
            chain = await ask(client, "m1", "What does the chain replacement cost?")
            hours = await ask(client, "m2", "When is the workshop open on Saturday?")

    assert "35 USD" in text_of(chain)
    assert "chain" in sources_of(chain)
    assert intent_of(chain) == "repair"
    assert "13:00" in text_of(hours)
    assert "opening-hours" in sources_of(hours)
    assert "manga" not in (text_of(chain) + text_of(hours)).casefold()


def text_of(frames: list[dict[str, Any]]) -> str:
    return "".join(frame.get("delta", "") for frame in frames)


def sources_of(frames: list[dict[str, Any]]) -> list[str]:
    return [source["id"] for source in frames[-1]["sources"]]


def intent_of(frames: list[dict[str, Any]]) -> str:
    (started,) = [frame for frame in frames if frame["type"] == "chat.response.started"]
    return str(started["intent"])
