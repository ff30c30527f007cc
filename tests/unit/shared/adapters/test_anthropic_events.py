"""Decoding the Messages API's events: the same whatever the network did to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.anthropic_events import EventDecoder, StreamedError
from shared.adapters.sse_framing import EVENT_LIMIT_BYTES, SseFraming
from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, TextDelta
from shared.contracts.server_frames import Usage
from shared.errors import ModelDisconnected


def sse(type_: str, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': type_, **fields}, ensure_ascii=False)}\n\n".encode()


def delta(text: str) -> bytes:
    return sse("content_block_delta", delta={"type": "text_delta", "text": text})


STOP = sse("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}) + sse(
    "message_stop"
)


def decoder() -> EventDecoder:
    return EventDecoder(SseFraming())


@given(texts=st.lists(st.text(min_size=1, max_size=20), max_size=8), data=st.data())
def test_cuts_change_nothing(texts: list[str], data: st.DataObject) -> None:
    whole = b"".join(map(delta, texts)) + STOP
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    reader = decoder()
    events: list[ModelEvent] = []

    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        events.extend(reader.feed(whole[start:end]))

    assert [event.text for event in events if isinstance(event, TextDelta)] == texts
    assert events[-1] == ModelStopped("end_turn", Usage(output_tokens=2))
    assert reader.failure is None


def test_nothing_comes_after_the_stop() -> None:
    reader = decoder()

    events = reader.feed(STOP + delta("late") + sse("ping"))

    assert isinstance(events[-1], ModelStopped)
    assert reader.feed(delta("later")) == []


def test_a_failure_waits_until_the_text_before_it_is_taken() -> None:
    reader = decoder()

    assert reader.feed(delta("a") + sse("error", error={"type": "api_error", "message": "m"})) == [
        TextDelta("a")
    ]
    assert isinstance(reader.failure, StreamedError)
    assert reader.failure.type == "api_error"


@pytest.mark.parametrize("fields", [{}, {"error": 3}, {"error": {"type": 4}}, {"delta": "odd"}])
def test_an_error_event_of_another_shape_is_still_an_error(fields: dict[str, Any]) -> None:
    reader = decoder()
    reader.feed(sse("error", **fields))

    assert isinstance(reader.failure, StreamedError)


def test_text_that_a_block_starts_with_is_text() -> None:
    start = sse("content_block_start", index=0, content_block={"type": "text", "text": "Hi"})

    assert decoder().feed(start) == [TextDelta("Hi")]


def test_usage_of_the_last_event_counts_and_includes_the_cache() -> None:
    reader = decoder()
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 20, "output_tokens": 1}
    reader.feed(sse("message_start", message={"usage": usage}))
    reader.feed(sse("message_delta", delta={}, usage={"output_tokens": 9, "input_tokens": None}))

    [*_, stopped] = reader.feed(STOP.replace(b'"output_tokens": 2', b'"output_tokens": 11'))

    assert stopped == ModelStopped("end_turn", Usage(input_tokens=21, output_tokens=11))


@pytest.mark.parametrize(
    "event",
    [sse("ping"), sse("future", delta=[1]), b"data: []\n\n", delta(""), sse("message_start")],
)
def test_events_without_text_are_signs_of_life(event: bytes) -> None:
    assert decoder().feed(event) == [ModelAlive()]


def test_an_endless_line_is_a_failure() -> None:
    reader = decoder()
    reader.feed(b"data: " + b"x" * EVENT_LIMIT_BYTES)
    reader.feed(b"x")

    assert isinstance(reader.failure, ModelDisconnected)
