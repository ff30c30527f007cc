"""Ends that are not answers: too old, nobody reads, nobody writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness.chat import chat
from tests.harness.stack import Stack, running_stack

GRACE_MS = 1_500
STALE_MS = 3_000
IDLE_MS = 5_000


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose limits are short enough to wait for."""
    with running_stack(
        tmp_path_factory.mktemp("impatient"),
        inline_slots=1,
        stale_after_ms=STALE_MS,
        reader_grace_ms=GRACE_MS,
        idle_close_ms=IDLE_MS,
    ) as running:
        yield running


async def test_turn_held_longer_than_the_threshold_expires_without_a_model_call(
    impatient: Stack,
) -> None:
    async with chat(impatient.chat_url) as holder, chat(impatient.chat_url) as client:
        with impatient.trigger_disabled("burst"):
            held = await holder.send("/sim tokens=4 ttft_ms=9000 tokens_per_s=50 id=hold")
            assert (await holder.accepted(held))["path"] == "inline"
            message_id = await client.send("/sim tokens=4 id=late")
            accepted = await client.accepted(message_id)
            assert accepted["path"] == "burst"
            end = await client.end(accepted["turn_id"])
        queued = [frame for frame in client.frames if frame["type"] == "chat.queued"]
        assert queued, "a waiting user is told so within a second"
        assert queued[0]["turn_id"] == accepted["turn_id"]
        assert (end["type"], end["attempt"], end["seq"]) == ("chat.response.expired", 0, 0)
        assert end["retryable"] is True
        assert end["age_ms"] >= STALE_MS
        assert impatient.model_calls("late") == []
        assert impatient.stored_turns(accepted["turn_id"]) == []
        end = await holder.end((await holder.accepted(held))["turn_id"])
        assert end["type"] == "chat.response.completed"


async def test_client_that_leaves_costs_no_model_call_after_the_grace(impatient: Stack) -> None:
    async with chat(impatient.chat_url) as client:
        message_id = await client.send("/sim tokens=2000 ttft_ms=10 tokens_per_s=20 id=gone-1")
        await client.accepted(message_id)
        await client.until(lambda frame: frame["type"] == "chat.response.delta")
    left_at = asyncio.get_running_loop().time()
    while impatient.model_calls("gone-1")[0]["ended"] == "running":
        assert asyncio.get_running_loop().time() - left_at < GRACE_MS / 1000 + 2.5
        await asyncio.sleep(0.1)
    [call] = impatient.model_calls("gone-1")
    assert call["ended"] == "client_closed"


async def test_idle_socket_is_closed_with_4408(impatient: Stack) -> None:
    async with chat(impatient.chat_url) as client:
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(IDLE_MS / 1000 + 5):
                while True:
                    await client.next()
        assert client.socket.close_code == 4408
