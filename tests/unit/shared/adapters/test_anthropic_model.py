"""The Anthropic adapter: the real SDK over real sockets, in every way that a stream can go and end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from shared.adapters.anthropic_model import AnthropicChatModel
from shared.clock import SystemClock
from shared.contracts.model import (
    ModelAlive,
    ModelEvent,
    ModelStopped,
    Prompt,
    PromptMessage,
    TextDelta,
)
from shared.contracts.model_budget import ProviderAllowance
from shared.contracts.server_frames import Usage
from shared.errors import (
    ConfigurationError,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    TransientError,
)
from shared.ports import ChatModel
from tests.fakes.http_server import Exchange, RawServer, raw_server

PROMPT = Prompt(
    model="claude-haiku-4-5",
    system="You help readers.",
    messages=(PromptMessage("user", "Hallo"),),
    max_tokens=64,
)
TEXT = "Grüße, 漫画 🦊!"


def sse(type_: str, **fields: Any) -> bytes:
    data = json.dumps({"type": type_, **fields}, ensure_ascii=False)
    return f"event: {type_}\ndata: {data}\n\n".encode()


def delta(text: str) -> bytes:
    return sse("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def error(type_: str) -> bytes:
    return sse("error", error={"type": type_, "message": "sorry"})


START = sse(
    "message_start",
    message={
        "id": "msg_1",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
    },
) + sse("content_block_start", index=0, content_block={"type": "text", "text": ""})
STOPPING = sse("content_block_stop", index=0) + sse(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}
)
END = STOPPING + sse("message_stop")
PING = sse("ping")


@asynccontextmanager
async def model_at(url: str) -> AsyncIterator[AnthropicChatModel]:
    model = AnthropicChatModel(api_key="sk-test", clock=SystemClock(), base_url=url)
    try:
        yield model
    finally:
        await model.close()


async def read(model: ChatModel, prompt: Prompt = PROMPT) -> list[ModelEvent]:
    found: list[ModelEvent] = []
    async with model.stream(prompt) as events:
        async for group in events:
            found.extend(group)
    return found


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def streaming(*pieces: bytes) -> Callable[[Exchange], Any]:
    async def handler(exchange: Exchange) -> None:
        await exchange.start_stream()
        for piece in pieces:
            await exchange.chunk(piece)
        await exchange.end_stream()

    return handler


async def outcome_of(
    handler: Callable[[Exchange], Any],
) -> tuple[str, Exception | None, RawServer]:
    """The text read before the end, the error if any, and what the server saw."""
    texts: list[str] = []
    async with raw_server(handler) as server, model_at(server.url) as model:
        try:
            async with model.stream(PROMPT) as events:
                async for group in events:
                    texts.extend(e.text for e in group if isinstance(e, TextDelta))
        except Exception as failure:  # noqa: BLE001
            return "".join(texts), failure, server
    return "".join(texts), None, server


async def test_stream_brings_text_and_ends_with_the_stop() -> None:
    async with (
        raw_server(streaming(START, PING, delta("Grüße, "), delta("漫画 🦊!"), END)) as server,
        model_at(server.url) as model,
    ):
        events = await read(model)

    assert text_of(events) == TEXT
    assert events[0] == ModelAlive()
    assert events[-1] == ModelStopped("end_turn", Usage(input_tokens=15, output_tokens=7))


async def test_request_carries_the_prompt_with_a_cached_system_block() -> None:
    async with raw_server(streaming(START, END)) as server, model_at(server.url) as model:
        await read(model)

    [request] = server.requests
    assert request.path == "/v1/messages"
    assert "sk-test" in request.headers["authorization"]
    assert request.headers["accept-encoding"] == "identity"
    assert json.loads(request.body) == {
        "model": "claude-haiku-4-5",
        "max_tokens": 64,
        "stream": True,
        "system": [
            {
                "type": "text",
                "text": "You help readers.",
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "messages": [{"role": "user", "content": "Hallo"}],
    }


async def test_request_marks_the_history_that_the_next_prompt_repeats() -> None:
    prompt = msgspec.structs.replace(
        PROMPT,
        messages=(
            PromptMessage("user", "Hallo"),
            PromptMessage("assistant", "Guten Tag"),
            PromptMessage(
                "user", [{"type": "text", "text": "data"}, {"type": "text", "text": "q"}]
            ),
        ),
        stable_messages=2,
    )
    async with (
        raw_server(streaming(START, END)) as server,
        model_at(server.url) as model,
        model.stream(prompt) as events,
    ):
        async for _ in events:
            pass

    body = json.loads(server.requests[0].body)
    marked = {"type": "text", "text": "Guten Tag", "cache_control": {"type": "ephemeral"}}
    assert [message["content"] for message in body["messages"][:2]] == ["Hallo", [marked]]
    assert server.requests[0].body.count(b"cache_control") == 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
async def test_events_and_characters_may_be_cut_anywhere(size: int) -> None:
    whole = START + delta(TEXT) + PING + delta(" Ende") + END
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]

    text, failure, _ = await outcome_of(streaming(*pieces))

    assert (text, failure) == (TEXT + " Ende", None)


async def test_events_of_one_read_come_together() -> None:
    async with (
        raw_server(streaming(START + delta("a") + delta("b") + delta("c") + END)) as server,
        model_at(server.url) as model,
        model.stream(PROMPT) as events,
    ):
        groups = [group async for group in events]

    assert len(groups) == 1
    assert text_of(list(groups[0])) == "abc"


async def test_unknown_events_are_signs_of_life() -> None:
    thinking = sse(
        "content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "x"}
    )
    odd = sse("brand_new", delta=[1, 2], usage="none") + b": comment\n\n" + b"data: 7\n\n"

    text, failure, _ = await outcome_of(streaming(START, thinking, odd, delta("ok"), END))

    assert (text, failure) == ("ok", None)


async def test_carriage_returns_and_split_data_lines_are_read() -> None:
    split = b'event: content_block_delta\r\ndata: {"type":"content_block_delta",\r\n'
    rest = b'data: "delta":{"type":"text_delta","text":"ok"}}\r\n\r\n'

    text, failure, _ = await outcome_of(streaming(START, split, rest, END))

    assert (text, failure) == ("ok", None)


async def test_connection_is_used_again_after_a_whole_answer() -> None:
    async with (
        raw_server(streaming(START, delta("x"), END)) as server,
        model_at(server.url) as model,
    ):
        for _ in range(3):
            await read(model)

    assert server.connections == 1


@pytest.mark.case("B-34")
async def test_a_connection_that_the_provider_dropped_while_idle_is_replaced() -> None:
    async def answer_and_drop(exchange: Exchange) -> None:
        await streaming(START, delta("x"), END)(exchange)
        exchange.reset()

    async with raw_server(answer_and_drop) as server, model_at(server.url) as model:
        for _ in range(3):
            assert text_of(await read(model)) == "x"
            # A thawed process asks the ledger first, so its loop has seen what happened to its sockets.
            await server.until_no_connection()
            await asyncio.sleep(0)

    assert (server.connections, len(server.requests)) == (3, 3)


STATUS_CASES = [
    (429, "rate_limit_error", ModelRateLimited),
    (529, "overloaded_error", ModelOverloaded),
    (500, "api_error", ModelDisconnected),
    (503, None, ModelOverloaded),
    (502, None, ModelDisconnected),
    (504, "timeout_error", ModelTimeout),
    (408, None, ModelTimeout),
    (409, None, ModelDisconnected),
    (400, "invalid_request_error", ModelRejected),
    (401, "authentication_error", ModelRejected),
    (402, "billing_error", ModelRejected),
    (403, "permission_error", ModelRejected),
    (404, "not_found_error", ModelRejected),
    (413, "request_too_large", ModelRejected),
    (422, None, ModelRejected),
    (400, "overloaded_error", ModelOverloaded),
]


@pytest.mark.parametrize(("status", "type_", "expected"), STATUS_CASES)
@pytest.mark.case("B-23")
async def test_refusals_are_classified_and_asked_once(
    status: int, type_: str | None, expected: type[Exception]
) -> None:
    async def handler(exchange: Exchange) -> None:
        if type_ is None:
            await exchange.answer(status, b"<html>", {"content-type": "text/html"})
        else:
            await exchange.answer_json(
                {"type": "error", "error": {"type": type_, "message": "sorry"}}, status
            )

    _, failure, server = await outcome_of(handler)

    assert type(failure) is expected
    assert failure.__cause__ is not None
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "expected_ms"),
    [("2", 2_000), ("171", 171_000), ("62291", 62_291_000), ("soon", None), (None, None)],
)
@pytest.mark.case("B-23")
async def test_rate_limits_carry_the_hint_of_the_provider(
    header: str | None, expected_ms: int | None
) -> None:
    async def handler(exchange: Exchange) -> None:
        headers = {} if header is None else {"retry-after": header}
        await exchange.answer(429, b"{}", headers)

    _, failure, _ = await outcome_of(handler)

    assert isinstance(failure, ModelRateLimited)
    assert failure.retry_after_ms == expected_ms


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("overloaded_error", ModelOverloaded),
        ("rate_limit_error", ModelRateLimited),
        ("api_error", ModelDisconnected),
        ("timeout_error", ModelTimeout),
        ("invalid_request_error", ModelRejected),
        ("brand_new_error", ModelDisconnected),
    ],
)
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.case("B-01")
async def test_error_events_are_classified_by_type_after_the_text_before_them(
    type_: str, expected: type[Exception], together: bool
) -> None:
    pieces = [START, delta("half"), error(type_)]

    text, failure, server = await outcome_of(
        streaming(b"".join(pieces)) if together else streaming(*pieces)
    )

    assert text == "half"
    assert type(failure) is expected
    assert len(server.requests) == 1


@pytest.mark.parametrize("before", [b"", START, START + delta("half")])
@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.case("B-02")
async def test_a_broken_connection_is_a_disconnect(before: bytes, how: str) -> None:
    async def handler(exchange: Exchange) -> None:
        if before:
            await exchange.start_stream()
            await exchange.chunk(before)
            await asyncio.sleep(0.02)  # the bytes arrive before the reset does
        getattr(exchange, how)()

    text, failure, _ = await outcome_of(handler)

    assert type(failure) is ModelDisconnected
    assert text == ("half" if b"half" in before else "")


async def test_a_stream_without_a_stop_is_a_disconnect() -> None:
    text, failure, _ = await outcome_of(streaming(START, delta("half")))

    assert text == "half"
    assert type(failure) is ModelDisconnected


@pytest.mark.parametrize("how", ["reset", "close", "end"])
async def test_a_stream_cut_after_its_stop_reason_is_whole(how: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(START + delta("all") + STOPPING)
        await asyncio.sleep(0.02)
        await exchange.end_stream() if how == "end" else getattr(exchange, how)()

    text, failure, _ = await outcome_of(handler)

    assert (text, failure) == ("all", None)


@pytest.mark.parametrize(
    "garbage",
    [b"data: {broken\n\n", b'data: {"type":"content_block_delta","delta":3}\n\n', b"\xff" * 9],
)
async def test_bytes_that_are_no_event_stream_are_a_disconnect(garbage: bytes) -> None:
    _, failure, _ = await outcome_of(streaming(START, garbage))

    assert type(failure) is ModelDisconnected


async def test_an_endless_event_is_a_disconnect() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.start_stream()
        for _ in range(64):
            await exchange.chunk(b"x" * 65_536)
        await exchange.until_client_left()

    _, failure, _ = await outcome_of(handler)

    assert type(failure) is ModelDisconnected


async def test_nobody_listening_is_a_disconnect(unused_tcp_port: int) -> None:
    async with model_at(f"http://127.0.0.1:{unused_tcp_port}") as model:
        with pytest.raises(ModelDisconnected):
            await read(model)


@pytest.mark.parametrize("with_headers", [True, False])
@pytest.mark.case("B-24")
async def test_a_silent_call_that_its_caller_cuts_leaves_no_connection(with_headers: bool) -> None:
    asked = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if with_headers:
            await exchange.start_stream()
            await exchange.chunk(b"event: message_start\n")
        asked.set()
        await exchange.until_client_left()

    async with raw_server(handler) as server, model_at(server.url) as model:
        call = asyncio.create_task(read(model))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(1):
            await server.until_no_connection()


@pytest.mark.case("B-24")
async def test_pings_are_told_as_signs_of_life() -> None:
    async with (
        raw_server(streaming(PING, PING, START + delta("late") + END)) as server,
        model_at(server.url) as model,
    ):
        events = await read(model)

    assert events[:2] == [ModelAlive(), ModelAlive()]
    assert text_of(events) == "late"


async def endless(exchange: Exchange) -> None:
    await exchange.start_stream()
    await exchange.chunk(START + delta("x"))
    await exchange.until_client_left()


@pytest.mark.case("B-06")
async def test_leaving_the_context_closes_the_connection_at_once() -> None:
    async with raw_server(endless) as server, model_at(server.url) as model:
        async with model.stream(PROMPT) as events:
            async for _ in events:
                break
        async with asyncio.timeout(1):
            await server.until_no_connection()


@pytest.mark.case("B-06")
async def test_an_exception_in_the_reader_closes_the_connection_and_stays_itself() -> None:
    async def read_and_fail(model: ChatModel) -> None:
        async with model.stream(PROMPT) as events:
            async for _ in events:
                raise LookupError("push failed")

    async with raw_server(endless) as server, model_at(server.url) as model:
        with pytest.raises(LookupError):
            await read_and_fail(model)
        async with asyncio.timeout(1):
            await server.until_no_connection()


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.case("B-06")
async def test_150_cancelled_streams_leave_no_connection_and_no_slot(cancels: int) -> None:
    async with raw_server(endless) as server, model_at(server.url) as model:
        tasks = [asyncio.create_task(read(model)) for _ in range(150)]
        await server.until_requests(150)
        for _ in range(cancels):
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0.001)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5):
            await server.until_no_connection()
        server.handler = streaming(START, delta("next"), END)
        events = await read(model)

    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert text_of(events) == "next"


async def test_cancelling_while_nothing_was_answered_closes_the_connection() -> None:
    async with (
        raw_server(lambda exchange: exchange.until_client_left()) as server,
        model_at(server.url) as model,
    ):
        task = asyncio.create_task(read(model))
        await server.until_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(1):
            await server.until_no_connection()


def test_a_missing_key_is_named_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        AnthropicChatModel(api_key="", clock=SystemClock())


def test_every_refusal_for_load_may_be_retried() -> None:
    for _, _, expected in STATUS_CASES:
        assert issubclass(expected, TransientError) != (expected is ModelRejected)


LIMITS = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "0",
    "content-type": "application/json",
}


async def told_by(handler: Callable[[Exchange], Any]) -> list[ProviderAllowance]:
    told: list[ProviderAllowance] = []
    async with raw_server(handler) as server:
        model = AnthropicChatModel(
            api_key="k", clock=SystemClock(), base_url=server.url, note=told.append
        )
        with contextlib.suppress(TransientError):
            await read(model)
        await model.close()
    return told


async def test_what_an_answer_says_of_the_limits_is_passed_on() -> None:
    async def handler(exchange: Exchange) -> None:
        lines = [f"{name}: {value}" for name, value in LIMITS.items() if "ratelimit" in name]
        await exchange.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            "transfer-encoding: chunked\r\n{}\r\n\r\n".format("\r\n".join(lines)).encode()
        )
        await exchange.chunk(START + delta("Hi") + END)
        await exchange.end_stream()

    assert await told_by(handler) == [ProviderAllowance(requests_limit=50, requests_left=0)]


async def test_what_a_refusal_says_of_the_limits_is_passed_on_with_its_pause() -> None:
    async def handler(exchange: Exchange) -> None:
        body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
        await exchange.answer(429, body, LIMITS | {"retry-after": "7"})

    assert await told_by(handler) == [
        ProviderAllowance(requests_limit=50, requests_left=0, pause_ms=7_000)
    ]


async def test_an_answer_that_says_nothing_of_limits_passes_nothing_on() -> None:
    assert await told_by(streaming(START + delta("Hi") + END)) == []


@pytest.mark.parametrize(
    ("status", "setting"),
    [
        (404, "BURSTCHAT_MODEL_PRIMARY"),
        (401, "ANTHROPIC_API_KEY"),
        (403, "ANTHROPIC_API_KEY"),
        (400, None),
    ],
)
async def test_a_model_or_key_that_does_not_exist_is_named_at_the_first_call(
    status: int, setting: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.answer_json({"type": "error", "error": {"message": "no such"}}, status)

    _, failure, _ = await outcome_of(handler)

    assert type(failure) is ModelRejected
    found = [record for record in caplog.records if record.message == "model.misconfigured"]
    assert len(found) == (setting is not None)
    for record in found:
        fields = record.fields  # type: ignore[attr-defined]
        assert setting is not None
        assert setting in fields["check"]
        assert (fields["model"], fields["status"]) == (PROMPT.model, status)
