"""Ids: whose they are, how they sort, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.identifiers import (
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    UserId,
    is_client_id,
    made_at_ms,
    new_turn_id,
    random_id,
    session_of_turn,
    turn_of,
    ulid,
)

ANA = SessionRef(TenantId("acme"), UserId("ana"), SessionId("s1"))
NOW_MS = 1_700_000_000_000
ULIDS_END_MS = 2**48 - 1


@pytest.mark.parametrize("value", ["a", "A-b_9", "x" * 64])
def test_letters_digits_hyphens_and_underscores_are_a_client_id(value: str) -> None:
    assert is_client_id(value)


@pytest.mark.parametrize("value", ["", "x" * 65, "a.b", "a b", "ä", "a\n", "a/b"])
def test_anything_else_is_no_client_id(value: str) -> None:
    assert not is_client_id(value)


@given(st.integers(0, ULIDS_END_MS), st.integers(0, ULIDS_END_MS), st.binary(min_size=10))
def test_ulids_sort_by_time_whatever_their_entropy(one: int, two: int, entropy: bytes) -> None:
    earlier, later = sorted((one, two))
    if earlier < later:
        assert ulid(earlier, entropy) < ulid(later, bytes(10))
    assert len(ulid(one, entropy)) == 26


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), st.integers(0, ULIDS_END_MS))
def test_a_turn_id_tells_its_session_and_when_it_was_made(session: str, at_ms: int) -> None:
    turn_id = new_turn_id(SessionId(session), at_ms, bytes(range(10)))
    assert session_of_turn(turn_id) == session
    assert made_at_ms(turn_id) == at_ms


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s1",
        ".",
        "s1.",
        "s1.short",
        f".{ulid(1, bytes(10))}",
        f"a b.{ulid(1, bytes(10))}",
        f"s1.{'-' * 26}",
    ],
)
def test_what_is_no_turn_id_belongs_to_nobody(value: str) -> None:
    assert session_of_turn(value) is None
    assert made_at_ms(TurnId(value)) == 0
    assert turn_of(ANA, TurnId(value)) is None


def test_a_turn_is_looked_up_under_the_callers_own_identity() -> None:
    turn_id = new_turn_id(SessionId("other"), NOW_MS, bytes(10))
    turn = turn_of(ANA, turn_id)
    assert turn is not None
    assert turn.session == SessionRef(ANA.tenant, ANA.user, SessionId("other"))


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        min_size=6,
        max_size=6,
    )
)
def test_sessions_of_different_owners_never_share_a_slot(parts: list[str]) -> None:
    one, two = (
        SessionRef(TenantId(a), UserId(b), SessionId(c)) for a, b, c in (parts[:3], parts[3:])
    )
    assert (one.slot_tag == two.slot_tag) == (one == two)


def test_a_slot_tag_is_26_hex_characters_and_stays_what_it_is() -> None:
    """Keys of Redis and of the table of turns hang on it."""
    assert ANA.slot_tag == SessionRef(ANA.tenant, ANA.user, ANA.session_id).slot_tag
    assert len(ANA.slot_tag) == 26
    assert set(ANA.slot_tag) <= set("0123456789abcdef")


@given(st.binary(min_size=3, max_size=30).filter(lambda entropy: len(entropy) % 3 == 0))
def test_a_random_id_may_be_sent_and_is_no_option_of_a_command_line(entropy: bytes) -> None:
    made = random_id(entropy)
    assert is_client_id(made)
    assert made[0].isalnum()
    assert len(made) == len(entropy) // 3 * 4


@pytest.mark.parametrize("first", [b"\xf8", b"\xfc"])
def test_a_random_id_that_would_begin_with_a_sign_begins_with_a_letter(first: bytes) -> None:
    assert random_id(first + b"aa").startswith("A")
