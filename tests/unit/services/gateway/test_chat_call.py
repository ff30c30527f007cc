"""What `POST /v1/chat` was asked, and which fault answers what is no message."""

from __future__ import annotations

import pytest

from services.gateway.chat_call import ChatCall, read_chat_call
from services.gateway.frames_in import InputLimits
from services.gateway.http_problem import Problem
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import MessageId, SessionId

LIMITS = InputLimits(message_bytes=1_000, metadata_bytes=100)


def read(body: bytes, accept: str = "", prefer: str = "") -> ChatCall:
    return read_chat_call(
        body, accept=accept, prefer=prefer, limits=LIMITS, encoded_limit_bytes=2_000, new_id="new"
    )


def test_ids_are_made_where_the_caller_gave_none() -> None:
    assert read(b'{"text":"hi"}') == ChatCall(
        mode="wait",
        session_id=SessionId("new"),
        priority="high",
        frame=ChatSend(message_id=MessageId("new"), text="hi"),
    )


def test_given_fields_are_kept_and_unknown_ones_ignored() -> None:
    call = read(b'{"text":"hi","session_id":"s","message_id":"m","metadata":{"a":1},"more":[]}')
    assert (call.session_id, call.frame.message_id, call.frame.metadata) == ("s", "m", {"a": 1})


@pytest.mark.parametrize(
    ("accept", "prefer", "mode"),
    [
        ("*/*", "", "wait"),
        ("application/json", "wait=10", "wait"),
        ("text/event-stream", "", "stream"),
        ("application/json, Text/Event-Stream;q=0.9", "", "stream"),
        ("", "respond-async", "detach"),
        ("text/event-stream", "wait=5, Respond-Async", "detach"),
    ],
)
def test_headers_choose_the_form_of_the_answer(accept: str, prefer: str, mode: str) -> None:
    assert read(b'{"text":"hi"}', accept, prefer).mode == mode


@pytest.mark.parametrize("priority", ["normal", "low"])
def test_a_lower_priority_is_for_calls_that_do_not_wait(priority: str) -> None:
    body = b'{"text":"hi","priority":"%s"}' % priority.encode()
    assert read(body, prefer="respond-async").priority == priority
    with pytest.raises(Problem) as raised:
        read(body)
    assert raised.value.status == 400


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"text":"\\ud800"}', 400, "invalid_json"),
        (b'{"text":"a\xff"}', 400, "invalid_json"),
        (b"[" * 20_000, 400, "invalid_json"),
        (b"[]", 400, "bad_request"),
        (b"{}", 400, "bad_request"),
        (b'{"text":7}', 400, "bad_request"),
        (b'{"text":"a","session_id":"a b"}', 400, "bad_request"),
        (b'{"text":"a","session_id":"a\\n"}', 400, "bad_request"),
        (b'{"text":"a","message_id":""}', 400, "bad_request"),
        (b'{"text":"a","message_id":null}', 400, "bad_request"),
        (b'{"text":"a","priority":"urgent"}', 400, "bad_request"),
        (b'{"text":"a","metadata":{"a":"' + b"x" * 110 + b'"}}', 400, "bad_request"),
        (b'{"text":" \\n "}', 400, "message_empty"),
        (b'{"text":"a\\u0000b"}', 400, "invalid_text"),
        (b'{"text":"' + b"a" * 1_001 + b'"}', 413, "message_too_large"),
        (b'{"text":"' + "é".encode() * 501 + b'"}', 413, "message_too_large"),
        (b'{"text":"' + b"\\u0001" * 400 + b'"}', 413, "message_too_large"),
    ],
)
def test_what_is_no_message_is_a_fault_with_the_code_of_a_socket(
    body: bytes, status: int, code: str
) -> None:
    with pytest.raises(Problem) as raised:
        read(body)
    assert (raised.value.status, raised.value.fault.code) == (status, code)
