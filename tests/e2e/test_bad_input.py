"""Bad input is answered in words; the connection and a running turn do not notice."""

from __future__ import annotations

import json

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness.chat import chat, sha256
from tests.harness.stack import Stack

FAULTS = [
    ('{"type":', "invalid_json"),
    ('{"type":"chat.send","message_id":"m","text":"\\ud800"}', "invalid_json"),
    ("[1,2]", "invalid_frame"),
    ("[" * 5_000, "invalid_json"),
    ("42", "invalid_frame"),
    ('{"no":"type"}', "invalid_frame"),
    ('{"type":"chat.shout"}', "unknown_type"),
    ('{"type":"chat.send","message_id":7,"text":"x"}', "invalid_frame"),
    ('{"type":"chat.send","message_id":"not allowed!","text":"x"}', "invalid_frame"),
    ('{"type":"chat.send","message_id":"m"}', "invalid_frame"),
    (
        '{"type":"chat.resume","turn_id":"nobody.01ARZ3NDEKTSV4RRFFQ69G5FAV","after_seq":-1}',
        "unknown_turn",
    ),
    ('{"type":"chat.cancel","turn_id":"nobody.01ARZ3NDEKTSV4RRFFQ69G5FAV"}', "unknown_turn"),
]
REFUSALS = [
    ("", "message_empty"),
    (" \n\t ", "message_empty"),
    ("a\0b", "invalid_text"),
    ("x" * 16_385, "message_too_large"),
    ("語" * 5_462, "message_too_large"),
]


@pytest.mark.case("B-32")
async def test_bad_frames_are_named_and_a_running_turn_is_unharmed(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        running = await client.send("/sim tokens=60 ttft_ms=10 tokens_per_s=30 id=unharmed")
        turn_id = (await client.accepted(running))["turn_id"]
        for raw, code in FAULTS:
            await client.socket.send(raw)
            error = await _fresh(client, "error")
            assert error["code"] == code, raw[:60]
        await client.socket.send(b"\x00\x01")
        assert (await _fresh(client, "error"))["code"] == "binary_not_supported"
        for number, (text, code) in enumerate(REFUSALS):
            await client.send(text, f"refused-{number}")
            rejected = await _fresh(client, "chat.rejected")
            assert (rejected["code"], rejected["message_id"]) == (code, f"refused-{number}")
        end = await client.end(turn_id)
        assert end["type"] == "chat.response.completed"
        assert end["sha256"] == sha256(client.text(turn_id))
        await client.send_frame({"type": "chat.history"})
        history = await client.until(lambda frame: frame["type"] == "chat.history")
        assert [turn["turn_id"] for turn in history["turns"]] == [turn_id]


async def test_frame_above_the_limit_closes_with_1009(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        await client.socket.send(
            json.dumps({"type": "chat.send", "message_id": "m", "text": "x" * 33_000})
        )
        with pytest.raises(ConnectionClosed):
            while True:
                await client.next()
        assert client.socket.close_code == 1009


async def test_too_many_bad_frames_close_with_4400(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        for _ in range(25):
            await client.socket.send("nonsense")
        with pytest.raises(ConnectionClosed):
            while True:
                await client.next()
        assert client.socket.close_code == 4400
        assert client.frames[-1]["code"] == "too_many_errors"


async def _fresh(client: object, wanted: str) -> dict[str, object]:
    while True:
        frame = await client.next()  # type: ignore[attr-defined]
        if frame["type"] == wanted:
            return frame
