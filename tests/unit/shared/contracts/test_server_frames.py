"""Frames of the server as they travel."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from shared.contracts.identifiers import MessageId, TurnId
from shared.contracts.server_frames import (
    AnyServerFrame,
    ChatAccepted,
    LoggedFrame,
    Pong,
    ResponseDelta,
    ResponseFailed,
    TerminalFrame,
    decode_server_frame,
    encode_frame,
)

TURN = TurnId("s1.01HF7YAT31JZHSMW1CG6Q6MHB7")
DELTA = ResponseDelta(turn_id=TURN, attempt=1, seq=1, delta='Grüße 漫画 🦊 "\x00')


def test_text_travels_as_utf8_unescaped_but_for_what_json_must() -> None:
    raw = encode_frame(DELTA)
    assert "Grüße 漫画 🦊".encode() in raw
    assert json.loads(raw)["delta"] == DELTA.delta


@pytest.mark.parametrize("raw", [encode_frame(DELTA), encode_frame(DELTA).decode()])
def test_a_frame_is_read_as_it_was_written(raw: bytes | str) -> None:
    assert decode_server_frame(raw) == DELTA


def test_what_has_no_value_is_left_out_and_what_is_null_is_not() -> None:
    failed = ResponseFailed(
        turn_id=TURN, attempt=1, seq=1, code="internal", message="m", retryable=False, partial=False
    )
    assert (
        not {"retry_after_ms", "retract", "stop_reason"} & json.loads(encode_frame(failed)).keys()
    )
    accepted = ChatAccepted(message_id=MessageId("m"), turn_id=TURN, path="inline", duplicate=False)
    assert "position" not in json.loads(encode_frame(accepted))
    assert json.loads(encode_frame(Pong(nonce=None, at_ms=1)))["nonce"] is None


def test_a_code_and_fields_of_a_newer_server_are_understood() -> None:
    newer = json.loads(
        encode_frame(
            ResponseFailed(
                turn_id=TURN,
                attempt=1,
                seq=0,
                code="invented_later",
                message="m",
                retryable=True,
                partial=False,
            )
        )
    ) | {"added_later": 1}
    frame = decode_server_frame(json.dumps(newer))
    assert isinstance(frame, ResponseFailed)
    assert frame.code == "invented_later"


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b'{"type":"chat.invented"}', msgspec.ValidationError),
        (b"{}", msgspec.ValidationError),
        (b"no json", msgspec.DecodeError),
    ],
)
def test_what_is_no_frame_is_refused(raw: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_server_frame(raw)


def test_each_type_name_is_dotted_lower_case_and_used_once() -> None:
    names = [frame.__struct_config__.tag for frame in get_args(AnyServerFrame)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() and " " not in name for name in names)


def test_logged_frames_and_they_alone_carry_attempt_and_seq() -> None:
    logged = set(get_args(LoggedFrame))
    assert set(get_args(TerminalFrame)) < logged
    for frame in get_args(AnyServerFrame):
        has_place = {"attempt", "seq"} <= set(frame.__struct_fields__)
        assert has_place == (frame in logged)
