from __future__ import annotations

import json

import pytest

from services.gateway.frames_in import InputLimits, decode_client_frame
from shared.contracts.client_frames import (
    ChatCancel,
    ChatHistoryRequest,
    ChatResume,
    ChatSend,
    Ping,
)
from shared.contracts.server_frames import ChatRejected, ProtocolError

LIMITS = InputLimits(message_bytes=16_384, metadata_bytes=1_024)


def decode(text: str) -> object:
    return decode_client_frame(text, LIMITS)


def error_of(text: str) -> tuple[str, object, object]:
    error = decode(text)
    assert isinstance(error, ProtocolError)
    return error.code, error.message_id, error.turn_id


def send(**fields: object) -> str:
    return json.dumps({"type": "chat.send", "message_id": "m1", "text": "hello", **fields})


def nested(depth: int) -> dict[str, object]:
    """An object with lists and objects in one another."""
    value: object = 1
    for level in range(depth):
        value = {"a": value} if level % 2 == 0 else [value, 2]
    return {"a": value} if not isinstance(value, dict) else value


def test_metadata_may_be_nested_as_deep_as_anyone_needs() -> None:
    assert isinstance(decode(send(metadata=nested(31))), ChatSend)


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (send(), ChatSend(message_id="m1", text="hello")),
        (
            send(metadata={"a": [1]}, later="ignored"),
            ChatSend(message_id="m1", text="hello", metadata={"a": [1]}),
        ),
        ('{"type":"chat.resume","turn_id":"t"}', ChatResume(turn_id="t")),
        (
            '{"type":"chat.resume","turn_id":"t","after_seq":4,"attempt":2}',
            ChatResume(turn_id="t", after_seq=4, attempt=2),
        ),
        ('{"type":"chat.cancel","turn_id":"t"}', ChatCancel(turn_id="t")),
        ('{"type":"chat.history"}', ChatHistoryRequest()),
        (
            '{"type":"chat.history","before":"t","limit":50}',
            ChatHistoryRequest(before="t", limit=50),
        ),
        ('{"type":"ping"}', Ping()),
        ('{"nonce":"n","type":"ping"}', Ping(nonce="n")),
    ],
)
def test_a_frame_is_decoded_and_unknown_fields_are_ignored(text: str, frame: object) -> None:
    assert decode(text) == frame


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null null",
        '{"type":"ping"} x',
        "[" * 5_000,
        "[" * 5_000 + "]" * 5_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"type":"ping","nonce":NaN}',
        '{"type":"chat.send","message_id":"m1","text":"\\ud800"}',
        '{"type":"chat.send","message_id":"m1","text":"\\ud800 abcdefgh"}',
        '{"type":"chat.send","message_id":"m1","text":"\\udc00"}',
        '{"type":"chat.send","message_id":"m1","text":"raw \n newline"}',
    ],
)
@pytest.mark.case("B-32")
def test_what_is_no_json_is_invalid_json_as_a_whole(text: str) -> None:
    code, message_id, turn_id = error_of(text)
    assert code == "invalid_json"
    assert not message_id
    assert not turn_id


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "true", "{}", '{"type":5}'])
def test_what_is_no_object_with_a_type_is_an_invalid_frame(text: str) -> None:
    assert error_of(text)[0] == "invalid_frame"


@pytest.mark.parametrize("kind", ["chat.accepted", "no.such", "", "CHAT.SEND"])
@pytest.mark.case("B-32")
def test_a_type_that_no_client_sends_is_unknown(kind: str) -> None:
    assert error_of(json.dumps({"type": kind}))[0] == "unknown_type"


@pytest.mark.parametrize(
    "text",
    [
        send(message_id=7),
        send(message_id=""),
        send(message_id="a" * 65),
        send(message_id="ä"),
        send(message_id="a b"),
        '{"type":"chat.send","message_id":"m1"}',
        send(text=5),
        send(text=None),
        send(metadata=[]),
        send(metadata={"a": "x" * 1_024}),
        send(metadata=nested(33)),
        '{"type":"chat.resume"}',
        '{"type":"chat.resume","turn_id":7}',
        '{"type":"chat.resume","turn_id":""}',
        '{"type":"chat.resume","turn_id":"t","after_seq":-2}',
        '{"type":"chat.resume","turn_id":"t","after_seq":"1"}',
        '{"type":"chat.resume","turn_id":"t","attempt":-1}',
        '{"type":"chat.resume","turn_id":"t","attempt":true}',
        '{"type":"chat.cancel"}',
        json.dumps({"type": "chat.cancel", "turn_id": "t" * 129}),
        '{"type":"chat.history","limit":0}',
        '{"type":"chat.history","limit":51}',
        '{"type":"chat.history","before":""}',
        '{"type":"ping","nonce":[1]}',
        json.dumps({"type": "ping", "nonce": "n" * 1_024}),
    ],
)
@pytest.mark.case("B-32")
def test_wrong_fields_are_an_invalid_frame(text: str) -> None:
    assert error_of(text)[0] == "invalid_frame"


def test_an_error_names_only_what_could_be_an_id() -> None:
    assert error_of(send(text=5)) == ("invalid_frame", "m1", _unset())
    assert error_of(send(message_id="<b>", text=5))[1] is _unset()
    assert error_of('{"type":"chat.resume","turn_id":"t","after_seq":-9}')[2] == "t"
    assert error_of(json.dumps({"type": "chat.cancel", "turn_id": "t" * 999}))[2] is _unset()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "message_empty"),
        (" \n\t\u2003", "message_empty"),
        ("a\0b", "invalid_text"),
        ("\0", "invalid_text"),
        ("x" * 16_385, "message_too_large"),
        ("é" * 8_193, "message_too_large"),
    ],
)
@pytest.mark.case("B-12", "B-30")
def test_text_that_cannot_become_a_turn_is_rejected_by_message_id(text: str, code: str) -> None:
    rejected = decode(send(text=text))
    assert isinstance(rejected, ChatRejected)
    assert (rejected.message_id, rejected.code) == ("m1", code)


@pytest.mark.parametrize("text", ["x" * 16_384, "é" * 8_192, "\U0001f600" * 4_096, "\x01"])
def test_text_up_to_the_limit_is_taken(text: str) -> None:
    assert isinstance(decode(send(text=text)), ChatSend)


def _unset() -> object:
    import msgspec

    return msgspec.UNSET
