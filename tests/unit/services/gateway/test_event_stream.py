"""Server-sent events as bytes."""

from __future__ import annotations

import pytest

from services.gateway.event_stream import encode_event, parse_last_event_id


def test_a_logged_frame_has_its_place_as_id() -> None:
    frame = b'{"type":"chat.response.delta","turn_id":"t","attempt":2,"seq":7,"delta":"a\\nb"}'
    event = encode_event(frame)
    assert event == b"event: chat.response.delta\nid: 2.7\ndata: " + frame + b"\n\n"


def test_a_frame_without_number_leaves_the_readers_place_as_it_is() -> None:
    assert encode_event(b'{"type":"chat.queued","turn_id":"t","wait_ms":1}').startswith(
        b"event: chat.queued\ndata: {"
    )


@pytest.mark.parametrize(
    ("value", "place"),
    [(None, (None, -1)), ("", (None, -1)), ("1.0", (1, 0)), (" 12.345 ", (12, 345))],
)
def test_a_place_is_read_back(value: str | None, place: tuple[int | None, int]) -> None:
    assert parse_last_event_id(value) == place


@pytest.mark.parametrize("value", ["1", "a.b", "1.2.3", "-1.0", "1.-2", "1." + "9" * 10, "٣.١"])
def test_what_is_no_place_of_ours_counts_as_none(value: str) -> None:
    assert parse_last_event_id(value) == (None, -1)
