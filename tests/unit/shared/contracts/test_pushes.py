from __future__ import annotations

import json

import pytest

from shared.contracts.identifiers import ConnectionId
from shared.contracts.pushes import (
    BatchLine,
    PushFrame,
    PushStatus,
    decode_batch,
    decode_statuses,
    encode_line,
    encode_statuses,
)


def test_a_line_carries_the_frame_as_text_and_stays_one_line() -> None:
    frame = PushFrame(ConnectionId("a/="), '{"delta":"one\\ntwo \u2028 ü"}\n'.encode())
    line = encode_line(frame)
    assert b"\n" not in line
    assert json.loads(line) == {"connection_id": "a/=", "data": frame.data.decode()}
    assert (
        decode_batch(line + b"\n" + line)
        == [BatchLine(ConnectionId("a/="), frame.data.decode())] * 2
    )


def test_later_fields_of_a_line_are_ignored() -> None:
    assert decode_batch(b'{"connection_id":"a","data":"x","trace":1}') == [
        BatchLine(ConnectionId("a"), "x")
    ]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"connection_id":"a"}', b"\xff", b"[" * 20_000, b'{"data":5}']
)
def test_what_is_no_batch_is_said_so(body: bytes) -> None:
    assert decode_batch(body) is None


def test_statuses_come_back_in_order() -> None:
    statuses = [PushStatus.SENT, PushStatus.GONE, PushStatus.TOO_LARGE, PushStatus.THROTTLED]
    assert encode_statuses(statuses) == b"[200,410,413,429]"
    assert decode_statuses(encode_statuses(statuses)) == statuses


@pytest.mark.parametrize("body", [b"", b"{}", b"[200,500]", b'["200"]'])
def test_what_is_no_list_of_statuses_is_said_so(body: bytes) -> None:
    assert decode_statuses(body) is None
