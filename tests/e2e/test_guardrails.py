"""Personal data and blocked replies through the whole running stack."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

import redis

from tests.harness.chat import chat
from tests.harness.stack import Stack

CARD = "4111 1111 1111 1111"
ADDRESS = "ana.lima@shop-customer.example"
TRACES = (CARD, CARD.replace(" ", ""), ADDRESS)


async def test_a_card_number_typed_reaches_no_part_behind_the_door(stack: Stack) -> None:
    script = "/sim tokens=4 ttft_ms=5 keep=1 id="
    words = f"\nMy card is {CARD}, mail {ADDRESS}"
    async with chat(stack.chat_url) as client:
        message_id = await client.send(f"{script}pii-socket{words}")
        turn_id = (await client.accepted(message_id))["turn_id"]
        await client.end(turn_id)
    low = {"text": f"{script}pii-queue{words}", "priority": "low"}
    queued_id = post(stack, low, {"prefer": "respond-async"})["turn_id"]
    await_end(stack, queued_id)

    for call_id in ("pii-socket", "pii-queue"):
        (call,) = stack.model_calls(call_id)
        assert "My card is [card], mail [mail]" in json.dumps(call["body"])
    for stored_id in (turn_id, queued_id):
        (stored,) = stack.stored_turns(stored_id)
        assert stored["user_text"].endswith("My card is [card], mail [mail]")
    places = {
        "ledger": everything_in_redis(stack),
        "model server": json.dumps([stack.model_calls(i) for i in ("pii-socket", "pii-queue")]),
        "tables": everything_in_tables(stack),
        "logs": "\n".join(
            path.read_text(errors="replace") for path in stack.state_dir.rglob("*.log")
        ),
    }
    for place, content in places.items():
        assert turn_id in content or place == "model server", f"nothing was read from {place}"
        assert not [trace for trace in TRACES if trace in content], place


async def test_a_reply_that_leaks_the_prompt_is_taken_back(stack: Stack) -> None:
    async with chat(stack.chat_url) as client:
        message_id = await client.send(
            "/sim tokens=60 ttft_ms=10 tokens_per_s=100 text=leak id=leak-1"
        )
        turn_id = (await client.accepted(message_id))["turn_id"]
        end = await client.end(turn_id)
        shown = client.text(turn_id)
        await client.send_frame({"type": "chat.history", "limit": 10})
        history = await client.until(lambda frame: frame["type"] == "chat.history")

    assert (end["type"], end["code"]) == ("chat.response.failed", "blocked")
    assert (end["partial"], end["retract"], end["retryable"]) == (True, True, False)
    assert shown.strip()
    assert "<" not in shown
    assert history["turns"] == []
    assert stack.stored_turns(turn_id) == []
    (call,) = stack.model_calls("leak-1")
    assert call["ended"] == "client_closed"


def post(stack: Stack, body: dict[str, Any], headers: dict[str, str]) -> Any:
    request = urllib.request.Request(
        f"{stack.http_url}/v1/chat",
        json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def await_end(stack: Stack, turn_id: str) -> None:
    """Ask until the turn has ended."""
    for _ in range(400):
        with urllib.request.urlopen(f"{stack.http_url}/v1/turns/{turn_id}", timeout=5) as answer:
            if json.load(answer)["status"] not in ("waiting", "running"):
                return
        time.sleep(0.05)
    raise AssertionError("the queued turn did not end")


def everything_in_redis(stack: Stack) -> str:
    """Every key with its value, whatever its type."""
    client = redis.Redis(port=stack.port_base + 5)
    readers = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": client.xrange,
        b"none": lambda key: None,
    }
    with client:
        return "\n".join(
            f"{key!r} {readers[client.type(key)](key)!r}" for key in client.scan_iter(count=1_000)
        )


def everything_in_tables(stack: Stack) -> str:
    table_pages = stack.aws("dynamodb").get_paginator("scan")
    return json.dumps(
        [
            page["Items"]
            for table in stack.status()["tables"].values()
            for page in table_pages.paginate(TableName=table)
        ],
        default=repr,
    )
