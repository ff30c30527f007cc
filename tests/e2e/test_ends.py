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
    """Local concurrency is 2 invocations of 10: the slot and 20 long turns leave the rest to wait."""
    holders, late = 21, 4

    async def hold(number: int) -> str:
        async with chat(impatient.chat_url) as client:
            message_id = await client.send(
                f"/sim tokens=4 ttft_ms=7000 tokens_per_s=50 id=hold-{number}"
            )
            turn_id = (await client.accepted(message_id))["turn_id"]
            return (await client.end(turn_id))["type"]

    async def arrive_late(number: int) -> dict[str, object]:
        async with chat(impatient.chat_url) as client:
            message_id = await client.send(f"/sim tokens=4 id=late-{number}")
            turn_id = (await client.accepted(message_id))["turn_id"]
            return await client.end(turn_id)

    holding = [asyncio.create_task(hold(number)) for number in range(holders)]
    await asyncio.sleep(2)
    ends = await asyncio.gather(*(arrive_late(number) for number in range(late)))
    await asyncio.gather(*holding)

    expired = [number for number, end in enumerate(ends) if end["type"] == "chat.response.expired"]
    assert expired, [end["type"] for end in ends]
    for number in expired:
        end = ends[number]
        assert (end["attempt"], end["seq"], end["retryable"]) == (0, 0, True)
        assert int(str(end["age_ms"])) >= STALE_MS
        assert impatient.model_calls(f"late-{number}") == []


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
