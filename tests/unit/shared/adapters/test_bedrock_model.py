"""Bedrock: the real SDK against a socket that speaks AWS's event-stream framing."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from shared.adapters.bedrock_model import BedrockChatModel
from shared.clock import SystemClock
from shared.contracts.model import ModelEvent, ModelStopped, Prompt, PromptMessage, TextDelta
from shared.contracts.server_frames import Usage
from shared.errors import (
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
)
from tests.fakes.http_server import Exchange, RawServer, raw_server

PROMPT = Prompt(
    model="anthropic.claude-haiku-4-5",
    system="You help readers.",
    messages=(PromptMessage("user", "Hallo"),),
    max_tokens=64,
)


def framed(payload: bytes, **headers: str) -> bytes:
    """One message of `application/vnd.amazon.eventstream`."""
    block = b"".join(
        bytes([len(name) + 1])
        + b":"
        + name.replace("_", "-").encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(block) + len(payload), len(block))
    head = prelude + struct.pack("!I", binascii.crc32(prelude))
    body = head + block + payload
    return body + struct.pack("!I", binascii.crc32(body))


def event(type_: str, **fields: Any) -> bytes:
    data = json.dumps({"type": type_, **fields}, ensure_ascii=False).encode()
    payload = json.dumps({"bytes": base64.b64encode(data).decode(), "p": "abc"}).encode()
    return framed(payload, event_type="chunk", message_type="event")


def delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def exception(name: str) -> bytes:
    return framed(b'{"message":"sorry"}', exception_type=name, message_type="exception")


START = event("message_start", message={"usage": {"input_tokens": 9, "output_tokens": 1}})
END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}) + (
    event("message_stop", **{"amazon-bedrock-invocationMetrics": {"inputTokenCount": 9}})
)


def streaming(*pieces: bytes) -> Callable[[Exchange], Any]:
    async def handler(exchange: Exchange) -> None:
        await exchange.start_stream("application/vnd.amazon.eventstream")
        for piece in pieces:
            await exchange.chunk(piece)
        await exchange.end_stream()

    return handler


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDROLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "role-secret")


async def outcome_of(
    handler: Callable[[Exchange], Any],
) -> tuple[list[ModelEvent], Exception | None, RawServer]:
    seen: list[ModelEvent] = []
    failure = None
    async with raw_server(handler) as server:
        model = BedrockChatModel(region="eu-west-1", clock=SystemClock(), base_url=server.url)
        try:
            async with model.stream(PROMPT) as events:
                async for group in events:
                    seen.extend(group)
        except Exception as error:  # noqa: BLE001
            failure = error
        await model.close()
    return seen, failure, server


def text_of(events: list[ModelEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta))


@pytest.mark.parametrize("size", [1, 5, 10_000])
async def test_events_come_out_of_their_framing_however_it_is_cut(size: int) -> None:
    whole = START + delta("Grüße 🦊") + END
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]

    events, failure, server = await outcome_of(streaming(*pieces))

    assert failure is None
    assert text_of(events) == "Grüße 🦊"
    assert events[-1] == ModelStopped("end_turn", Usage(input_tokens=9, output_tokens=3))
    [request] = server.requests
    assert request.path.endswith("/invoke-with-response-stream")
    assert "Credential=AKIDROLE/" in request.headers["authorization"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("throttlingException", ModelRateLimited),
        ("serviceUnavailableException", ModelOverloaded),
        ("internalServerException", ModelDisconnected),
        ("modelStreamErrorException", ModelDisconnected),
        ("modelTimeoutException", ModelTimeout),
        ("validationException", ModelRejected),
        ("brandNewException", ModelDisconnected),
    ],
)
@pytest.mark.case("B-01")
async def test_exceptions_in_mid_stream_are_classified_after_the_text_before_them(
    name: str, expected: type[Exception]
) -> None:
    events, failure, _ = await outcome_of(streaming(START + delta("half") + exception(name)))

    assert text_of(events) == "half"
    assert type(failure) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [(429, ModelRateLimited), (424, ModelDisconnected), (408, ModelTimeout), (403, ModelRejected)],
)
async def test_refusals_are_classified_by_status(status: int, expected: type[Exception]) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer_json({"message": "sorry"}, status)

    _, failure, server = await outcome_of(handler)

    assert type(failure) is expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("garbage", [b"data: {}\n\n" * 9, framed(b"{}")[:-1] + b"\x00" * 40])
async def test_bytes_of_another_kind_are_a_disconnect(garbage: bytes) -> None:
    _, failure, _ = await outcome_of(streaming(START, garbage))

    assert type(failure) is ModelDisconnected
