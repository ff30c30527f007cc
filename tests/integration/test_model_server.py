"""The model server spoken to by the real Anthropic SDK over real sockets."""

import asyncio
import time

import aiohttp
import anthropic
import pytest
from aiohttp import web

from infra.local.model_server.planning import Pace
from infra.local.model_server.server import ModelServer


@pytest.fixture
async def base_url():
    server = ModelServer(now_ms=lambda: time.time_ns() // 1_000_000, pace=Pace(0, 0))
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture(params=["aiohttp", "httpx"])
async def client(request, base_url):
    http = anthropic.DefaultAioHttpClient() if request.param == "aiohttp" else None
    made = anthropic.AsyncAnthropic(
        api_key="offline", base_url=base_url, max_retries=0, http_client=http
    )
    yield made
    await made.close()


def ask(client, text, *, stream=True, max_tokens=1_024, **more):
    return client.messages.create(
        model="claude-offline",
        max_tokens=max_tokens,
        messages=[{"role": "user", "content": text}],
        stream=stream,
        **more,
    )


async def events_of(client, text, **more):
    return [event async for event in await ask(client, text, **more)]


async def collect(stream, seen):
    async for item in stream:
        seen.append(item)


def text_of(events):
    return "".join(e.delta.text for e in events if e.type == "content_block_delta")


async def calls_of(base_url, script_id):
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{base_url}/sim/calls", params={"id": script_id}) as response,
    ):
        return (await response.json())["calls"]


async def calls_ended(base_url, script_id):
    async with asyncio.timeout(3):
        while True:
            calls = await calls_of(base_url, script_id)
            if calls and all(call["ended"] != "running" for call in calls):
                return calls
            await asyncio.sleep(0.01)


FAST = "ttft_ms=0 tokens_per_s=0"


async def test_a_stream_has_the_events_of_the_real_service_in_order(client):
    async with client.messages.with_streaming_response.create(
        model="m",
        max_tokens=100,
        messages=[{"role": "user", "content": f"/sim tokens=3 {FAST}"}],
        stream=True,
    ) as raw:
        assert raw.headers["request-id"].startswith("req_")
        assert raw.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert raw.headers["anthropic-ratelimit-requests-limit"] == "4000"
        names = [line[7:] async for line in raw.iter_lines() if line.startswith("event: ")]
    assert names == [
        "message_start",
        "content_block_start",
        "ping",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_one_token_is_one_delta_and_usage_is_cumulative(client):
    events = await events_of(client, f"/sim tokens=100 {FAST}")
    deltas = [e for e in events if e.type == "content_block_delta"]
    assert len(deltas) == 100
    closing = next(e for e in events if e.type == "message_delta")
    assert closing.delta.stop_reason == "end_turn"
    assert closing.usage.output_tokens == 100


async def test_the_same_seed_gives_the_same_text_streamed_or_whole(client):
    streamed = text_of(await events_of(client, f"/sim tokens=20 seed=7 {FAST}"))
    whole = await ask(client, f"/sim tokens=20 seed=7 {FAST}", stream=False)
    assert whole.content[0].text == streamed
    assert whole.usage.output_tokens == 20
    assert text_of(await events_of(client, f"/sim tokens=20 seed=8 {FAST}")) != streamed


@pytest.mark.parametrize(("kind", "beyond"), [("emoji", 0x2000), ("cjk", 0x3000)])
async def test_text_beyond_latin_arrives_whole(client, kind, beyond):
    text = text_of(await events_of(client, f"/sim tokens=50 text={kind} {FAST}"))
    assert max(map(ord, text)) > beyond


async def test_the_sdks_own_stream_helper_accumulates_the_answer(client):
    async with client.messages.stream(
        model="m",
        max_tokens=50,
        messages=[{"role": "user", "content": f"/sim tokens=5 {FAST}"}],
    ) as stream:
        final = await stream.get_final_message()
    assert len(final.content[0].text.split()) == 5
    assert final.stop_reason == "end_turn"


async def test_max_tokens_of_the_request_cuts_the_answer(client):
    events = await events_of(client, f"/sim tokens=100 {FAST}", max_tokens=10)
    assert next(e for e in events if e.type == "message_delta").delta.stop_reason == "max_tokens"
    assert len([e for e in events if e.type == "content_block_delta"]) == 10


@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        ("overloaded", "OverloadedError", 529),
        ("rate_limit retry_after_s=7", "RateLimitError", 429),
        ("invalid_request", "BadRequestError", 400),
    ],
)
async def test_refused_calls_are_the_sdks_own_errors(client, fault, error, status):
    with pytest.raises(anthropic.APIStatusError) as caught:
        await ask(client, f"/sim fault={fault}")
    assert type(caught.value).__name__ == error
    assert caught.value.status_code == status
    assert caught.value.request_id is not None
    if status == 429:
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [("overloaded_after", "overloaded_error"), ("rate_limit_after", "rate_limit_error")],
)
async def test_an_error_in_mid_stream_comes_after_exactly_n_deltas(client, fault, error_type):
    seen = []
    stream = await ask(client, f"/sim tokens=20 fault={fault}:5 {FAST}")
    with pytest.raises(anthropic.APIStatusError) as caught:
        await collect(stream, seen)
    assert len([e for e in seen if e.type == "content_block_delta"]) == 5
    assert caught.value.status_code == 200
    assert caught.value.body["error"]["type"] == error_type


async def test_an_abort_is_a_connection_reset_after_n_deltas(base_url):
    async with aiohttp.ClientSession() as http:
        body = {
            "model": "m",
            "max_tokens": 100,
            "stream": True,
            "messages": [
                {
                    "role": "user",
                    "content": "/sim tokens=20 ttft_ms=10 tokens_per_s=500 fault=abort_after:6 id=r",
                }
            ],
        }
        async with http.post(
            f"{base_url}/v1/messages", json=body, headers={"x-api-key": "k"}
        ) as response:
            parts = []
            with pytest.raises(aiohttp.ClientError) as caught:
                await collect(response.content.iter_any(), parts)
    assert b"".join(parts).count(b"text_delta") == 6
    assert "Connection reset by peer" in str(caught.value)
    assert [c["ended"] for c in await calls_ended(base_url, "r")] == ["fault"]


async def test_the_sdk_sees_an_abort_as_a_broken_stream(client):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the transport's own error types
        await events_of(client, f"/sim tokens=20 fault=abort_after:6 {FAST}")
    assert not isinstance(caught.value, anthropic.APIStatusError)


async def test_a_clean_end_without_stop_event_leaves_no_stop_reason(client):
    events = await events_of(client, f"/sim tokens=20 fault=end_after:4 {FAST}")
    assert len([e for e in events if e.type == "content_block_delta"]) == 4
    assert not [e for e in events if e.type in ("message_delta", "message_stop")]


async def test_a_stalled_call_is_recorded_as_closed_by_the_client(client, base_url):
    stream = await ask(client, f"/sim tokens=20 fault=stall_after:2 id=stalled {FAST}")
    deltas = 0
    async for event in stream:
        deltas += event.type == "content_block_delta"
        if deltas == 2:
            break
    assert (await calls_of(base_url, "stalled"))[0]["ended"] == "running"
    await stream.close()
    calls = await calls_ended(base_url, "stalled")
    assert calls[0]["ended"] == "client_closed"
    assert calls[0]["deltas"] == 2


async def test_a_client_that_leaves_in_mid_stream_is_noticed_at_once(client, base_url):
    stream = await ask(client, "/sim tokens=1000 ttft_ms=0 tokens_per_s=100 id=left")
    async for event in stream:
        if event.type == "content_block_delta":
            break
    await stream.close()
    closed_at = time.time_ns() // 1_000_000
    calls = await calls_ended(base_url, "left")
    assert calls[0]["ended"] == "client_closed"
    assert calls[0]["ended_at_ms"] - closed_at < 1_000
    assert calls[0]["deltas"] < 100


async def test_pings_come_before_the_text(client):
    async with client.messages.with_streaming_response.create(
        model="m",
        max_tokens=100,
        messages=[{"role": "user", "content": f"/sim tokens=1 fault=ping_only_s:1 {FAST}"}],
        stream=True,
    ) as raw:
        names = [line[7:] async for line in raw.iter_lines() if line.startswith("event: ")]
    assert names[:4] == ["message_start", "content_block_start", "ping", "ping"]
    assert names[-1] == "message_stop"


@pytest.mark.parametrize(
    ("fault", "stop_reason"),
    [("refusal", "refusal"), ("max_tokens", "max_tokens"), ("empty", "end_turn")],
)
async def test_odd_stop_reasons_end_an_otherwise_complete_stream(client, fault, stop_reason):
    events = await events_of(client, f"/sim tokens=3 fault={fault} {FAST}")
    assert events[-1].type == "message_stop"
    closing = next(e for e in events if e.type == "message_delta")
    assert closing.delta.stop_reason == stop_reason
    assert len(text_of(events).split()) == (3 if fault == "max_tokens" else 0)


async def test_a_slow_start_delays_the_first_byte(client):
    began = time.monotonic()
    stream = await ask(client, f"/sim tokens=1 fault=slow_start_ms:200 {FAST}")
    assert time.monotonic() - began >= 0.2
    await stream.close()


async def test_only_the_first_k_calls_of_an_id_fail(client, base_url):
    text = f"/sim tokens=1 fault=overloaded times=2 id=twice {FAST}"
    for _ in range(2):
        with pytest.raises(anthropic.APIStatusError):
            await ask(client, text)
    await events_of(client, text)
    ended = [call["ended"] for call in await calls_ended(base_url, "twice")]
    assert ended == ["fault", "fault", "completed"]


async def test_a_body_is_kept_only_when_asked(client, base_url):
    await events_of(client, f"/sim tokens=1 id=kept keep=1 {FAST}")
    await events_of(client, f"/sim tokens=1 id=dropped {FAST}")
    kept = (await calls_ended(base_url, "kept"))[0]
    assert kept["body"]["model"] == "claude-offline"
    assert set(kept) == {"started_at_ms", "ended_at_ms", "deltas", "ended", "body"}
    assert "body" not in (await calls_ended(base_url, "dropped"))[0]


async def test_the_script_is_found_behind_the_passages_of_the_same_message(client):
    content = [
        {"type": "text", "text": '<passages><passage id="1" title="x">/sim tokens=9</passage>'},
        {"type": "text", "text": f"/sim tokens=2 {FAST}"},
    ]
    assert len(text_of(await events_of(client, content)).split()) == 2


async def test_a_script_with_a_typing_error_is_refused_in_words_that_its_user_sees(client):
    events = await events_of(client, "/sim fault=overload")
    assert text_of(events).startswith("/sim: unknown fault 'overload'; known: overloaded, ")
    (ended,) = [event for event in events if event.type == "message_delta"]
    assert ended.delta.stop_reason == "refusal"


async def test_without_a_key_the_answer_is_401(base_url):
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{base_url}/v1/messages", json={}) as response,
    ):
        assert response.status == 401
        assert (await response.json())["error"]["type"] == "authentication_error"


async def test_a_history_that_the_real_service_would_refuse_is_refused(client):
    with pytest.raises(anthropic.BadRequestError, match="non-whitespace"):
        await client.messages.create(
            model="m",
            max_tokens=10,
            messages=[
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": " "},
                {"role": "user", "content": "again"},
            ],
        )


async def test_the_offline_answer_quotes_the_passage_that_fits(client):
    content = [
        {
            "type": "text",
            "text": "<passages>"
            '<passage id="a" title="Returns">Unread volumes can be returned within 30 days.</passage>'
            '<passage id="b" title="Shipping">Parcels leave the warehouse daily.</passage>'
            "</passages>",
        },
        {"type": "text", "text": "How long can I return a volume?"},
    ]
    answer = text_of(await events_of(client, content))
    assert "**Returns**: Unread volumes can be returned within 30 days." in answer
    assert "offline model" in answer
