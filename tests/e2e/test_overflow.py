"""A burst: what the single slot cannot take is answered by the function that the template deployed, if it did."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.harness.chat import chat, sha256
from tests.harness.stack import Stack

USERS = 5


async def test_five_users_at_one_slot_overflow_to_who_drains_burst(stack: Stack) -> None:
    turns = await asyncio.gather(*(_one_user(stack, number) for number in range(USERS)))

    burst = [turn for turn in turns if turn["frames"][0]["path"] == stack.overflow_path]
    assert len(burst) >= 3, [turn["frames"][0]["path"] for turn in turns]
    log = stack.overflow_log()
    for turn in burst:
        assert turn["accepted"]["path"] == "burst"
        assert turn["accepted"]["turn_id"] in log, "the consumer's own log must name the turn"
    for turn in turns:
        assert turn["end"]["type"] == "chat.response.completed"
        assert turn["end"]["sha256"] == sha256(turn["text"])
        assert [frame["seq"] for frame in turn["frames"]] == list(range(len(turn["frames"])))
        assert len(stack.stored_turns(turn["accepted"]["turn_id"])) == 1
    shapes = {
        tuple(sorted({(frame["type"], *sorted(frame)) for frame in turn["frames"]}))
        for turn in turns
    }
    assert len(shapes) == 1, "but for the path nothing tells which side answered"


async def _one_user(stack: Stack, number: int) -> dict[str, Any]:
    async with chat(stack.chat_url) as client:
        message_id = await client.send(
            f"/sim tokens=30 ttft_ms=400 tokens_per_s=60 seed={number} id=overflow-{number}"
        )
        accepted = await client.accepted(message_id)
        end = await client.end(accepted["turn_id"])
        return {
            "accepted": accepted,
            "end": end,
            "frames": client.of_turn(accepted["turn_id"]),
            "text": client.text(accepted["turn_id"]),
        }
