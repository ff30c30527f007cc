"""Bedrock: the real SDK against a socket that speaks AWS's event-stream framing."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.eventstream import EventStream
from botocore.exceptions import EventStreamError
from botocore.model import Shape
from botocore.parsers import EventStreamJSONParser

from shared.adapters import anthropic_errors
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
from tests.fakes.bedrock_server import delta, event, exception, framed
from tests.fakes.http_server import Exchange, RawServer, raw_server

PROMPT = Prompt(
    model="anthropic.claude-haiku-4-5",
    system="You help readers.",
    messages=(PromptMessage("user", "Hallo"),),
    max_tokens=64,
)


OPERATION = (
    botocore.session.Session()
    .get_service_model("bedrock-runtime")
    .operation_model("InvokeModelWithResponseStream")
)
STREAMED = {
    "internalServerException",
    "modelStreamErrorException",
    "modelTimeoutException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
}
REFUSALS: dict[str, type[Exception]] = {
    "AccessDeniedException": ModelRejected,
    "InternalServerException": ModelDisconnected,
    "ModelErrorException": ModelDisconnected,
    "ModelNotReadyException": ModelOverloaded,
    "ModelStreamErrorException": ModelDisconnected,
    "ModelTimeoutException": ModelTimeout,
    "ResourceNotFoundException": ModelRejected,
    "ServiceQuotaExceededException": ModelRateLimited,
    "ServiceUnavailableException": ModelOverloaded,
    "ThrottlingException": ModelRateLimited,
    "ValidationException": ModelRejected,
}
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


@pytest.mark.parametrize("shape", OPERATION.error_shapes, ids=lambda shape: shape.name)
async def test_every_refusal_of_the_service_model_has_a_meaning(shape: Shape) -> None:
    status = shape.metadata["error"]["httpStatusCode"]

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(
            status, b'{"message":"sorry"}', {"x-amzn-errortype": f"{shape.name}:"}
        )

    _, failure, _ = await outcome_of(handler)

    assert type(failure) is REFUSALS[shape.name]


def test_every_exception_of_a_stream_is_known_by_its_name() -> None:
    body = OPERATION.output_shape.members["body"]
    exceptions = {name for name, shape in body.members.items() if shape.metadata.get("exception")}

    assert exceptions == STREAMED
    assert exceptions <= set(anthropic_errors._BY_TYPE)


def test_the_double_frames_events_as_the_service_model_describes_them() -> None:
    data = START + delta("Hi") + exception("throttlingException")
    raw = SimpleNamespace(stream=lambda: iter([data]))
    body = OPERATION.output_shape.members["body"]
    stream = EventStream(raw, body, EventStreamJSONParser(), OPERATION.name)

    first = next(iter(stream))
    assert json.loads(first["chunk"]["bytes"])["type"] == "message_start"
    with pytest.raises(EventStreamError, match="throttlingException"):
        list(stream)


@pytest.mark.parametrize("garbage", [b"data: {}\n\n" * 9, framed(b"{}")[:-1] + b"\x00" * 40])
async def test_bytes_of_another_kind_are_a_disconnect(garbage: bytes) -> None:
    _, failure, _ = await outcome_of(streaming(START, garbage))

    assert type(failure) is ModelDisconnected
