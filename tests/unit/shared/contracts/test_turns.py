"""The queue message: what is read, what is refused, and what newer versions may add."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import SCHEMA, TurnRequest, decode_turn, encode_turn
from shared.errors import MalformedMessage, UnsupportedTurn

REQUEST = TurnRequest(
    turn_id=TurnId("s1.01HF7YAT31JZHSMW1CG6Q6MHB7"),
    session_id=SessionId("s1"),
    message_id=MessageId("m1"),
    tenant=TenantId("acme"),
    user=UserId("ana"),
    text="Grüße, 漫画 🦊 \ufffe",
    metadata={"page": 3},
    accepted_at_ms=1_700_000_000_000,
)


def test_a_turn_is_read_as_it_was_written() -> None:
    assert decode_turn(encode_turn(REQUEST)) == REQUEST
    assert decode_turn(encode_turn(REQUEST).decode()) == REQUEST


def test_a_turn_names_itself_under_its_owners_identity() -> None:
    assert REQUEST.ref.session == REQUEST.session
    assert (REQUEST.session.tenant, REQUEST.session.user) == ("acme", "ana")
    assert REQUEST.ref.turn_id == REQUEST.turn_id


def test_fields_of_a_newer_version_are_passed_over() -> None:
    newer = msgspec.json.decode(encode_turn(REQUEST)) | {"added_later": {"deep": [1]}}
    assert decode_turn(msgspec.json.encode(newer)) == REQUEST


@pytest.mark.parametrize("schema", [0, 2, SCHEMA + 98])
def test_another_schema_is_unsupported(schema: int) -> None:
    with pytest.raises(UnsupportedTurn, match=str(schema)):
        decode_turn(encode_turn(msgspec.structs.replace(REQUEST, schema=schema)))


@pytest.mark.parametrize("raw", [b"", b"null", b"[1]", b"\xff", b"[" * 60_000, b'{"schema":1}'])
@pytest.mark.case("B-29")
def test_bytes_that_are_no_turn_are_kept_for_the_dead_letter(raw: bytes) -> None:
    with pytest.raises(MalformedMessage) as refused:
        decode_turn(raw)
    assert refused.value.raw == raw


def test_text_with_a_lone_surrogate_is_malformed_and_kept() -> None:
    with pytest.raises(MalformedMessage) as refused:
        decode_turn('"\ud800"')
    assert refused.value.raw == b'"\xed\xa0\x80"'


@pytest.mark.parametrize(
    "field",
    [
        {"attempt_hint": 10**20},
        {"attempt_hint": -1},
        {"accepted_at_ms": -1},
        {"accepted_at_ms": 10**14},
        {"ready_at_ms": 10**18},
        {"enqueued_at_ms": -5},
        {"limit_at_ms": 10**14},
        {"turn_id": "no turn id"},
        {"turn_id": "s2.01HF7YAT31JZHSMW1CG6Q6MHB7"},
        {"session_id": "s2"},
    ],
)
def test_a_turn_that_no_gateway_of_ours_accepted_is_malformed(field: dict[str, object]) -> None:
    """Numbers that a script would write with an exponent, and a turn in another session's name."""
    raw = msgspec.json.encode(msgspec.json.decode(encode_turn(REQUEST)) | field)
    with pytest.raises(MalformedMessage) as refused:
        decode_turn(raw)
    assert refused.value.raw == raw
