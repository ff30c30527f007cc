"""Frames of a client: tolerant of unknown fields, strict about types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.contracts.client_frames import (
    AnyClientFrame,
    ChatCancel,
    ChatHistoryRequest,
    ChatResume,
    ChatSend,
    Ping,
)
from shared.contracts.identifiers import MessageId, TurnId

decode = msgspec.json.Decoder(AnyClientFrame).decode


@pytest.mark.parametrize(
    ("raw", "frame"),
    [
        (
            '{"type":"chat.send","message_id":"m","text":"Hi"}',
            ChatSend(message_id=MessageId("m"), text="Hi"),
        ),
        ('{"type":"chat.resume","turn_id":"t"}', ChatResume(turn_id=TurnId("t"))),
        (
            '{"type":"chat.resume","turn_id":"t","attempt":2,"after_seq":7}',
            ChatResume(turn_id=TurnId("t"), attempt=2, after_seq=7),
        ),
        ('{"type":"chat.cancel","turn_id":"t"}', ChatCancel(turn_id=TurnId("t"))),
        ('{"type":"chat.history"}', ChatHistoryRequest()),
        ('{"type":"ping"}', Ping()),
        ('{"type":"ping","nonce":7}', Ping(nonce=7)),
    ],
)
def test_each_frame_is_read_with_its_defaults(raw: str, frame: Any) -> None:
    assert decode(raw) == frame


def test_unknown_fields_are_passed_over() -> None:
    assert decode('{"type":"ping","later":{"deep":[1]}}') == Ping()


@pytest.mark.parametrize(
    "raw",
    [
        '{"type":"chat.invented"}',
        '{"type":"chat.send","message_id":"m"}',
        '{"type":"chat.send","message_id":"m","text":7}',
        '{"type":"chat.send","message_id":"m","text":"x","metadata":[]}',
        '{"type":"ping","nonce":{}}',
        '{"type":null}',
        "[]",
    ],
)
def test_missing_and_mistyped_fields_are_refused(raw: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(raw)


def test_two_messages_share_no_metadata() -> None:
    one, two = (decode('{"type":"chat.send","message_id":"m","text":"x"}') for _ in range(2))
    assert isinstance(one, ChatSend)
    assert isinstance(two, ChatSend)
    one.metadata["changed"] = True
    assert two.metadata == {}
