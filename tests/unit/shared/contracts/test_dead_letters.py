from __future__ import annotations

import msgspec
import pytest

from shared.contracts.dead_letters import decode_dead_letter
from shared.errors import MalformedMessage
from tests.fakes.deaths import letter, request


def test_a_letter_survives_its_queue_with_fields_of_a_newer_version() -> None:
    sent = letter(request())
    fields = msgspec.to_builtins(sent) | {"a_newer_field": 1}
    assert decode_dead_letter(msgspec.json.encode(fields).decode()) == sent


@pytest.mark.parametrize("raw", ["", "{}", "not JSON", "[" * 5_000, '{"schema":1}', "\ud800"])
def test_what_is_no_letter_is_malformed_and_kept(raw: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_dead_letter(raw)
    assert caught.value.raw == raw.encode("utf-8", "surrogatepass")


def test_a_letter_of_another_schema_is_not_guessed_at() -> None:
    fields = msgspec.to_builtins(letter(request())) | {"schema": 2}
    with pytest.raises(MalformedMessage, match="schema 2"):
        decode_dead_letter(msgspec.json.encode(fields).decode())
