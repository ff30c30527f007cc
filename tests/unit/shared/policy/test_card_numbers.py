"""What is a card number, and where in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.card_numbers import is_card_number, scan_cards

VISA = "4111 1111 1111 1111"
digits_and_gaps = st.text("0123456789 4-a.", max_size=60)


@pytest.mark.parametrize(
    "digits",
    [
        "4222222222222",
        "4111111111111111",
        "5555555555554444",
        "2223003122003222",
        "378282246310005",
        "30569309025904",
        "3530111333300000",
        "6011111111111117",
        "6205500000000000004",
        "6759649826438453",
        "2200770212727079",
    ],
)
def test_every_brand_is_known(digits: str) -> None:
    assert is_card_number(digits)


@pytest.mark.parametrize(
    "digits",
    [
        pytest.param("4111111111111112", id="check digit"),
        pytest.param("411111111111", id="too short"),
        pytest.param("41111111111111111111", id="too long"),
        pytest.param("0000000000000000", id="no brand"),
        pytest.param("41111111111116", id="no length of the brand"),
        pytest.param("4901234567894", id="the number of an article"),
        pytest.param("", id="nothing"),
    ],
)
def test_other_numbers_are_none(digits: str) -> None:
    assert not is_card_number(digits)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (VISA, [VISA]),
        (f"12 {VISA} 12 27 123", [VISA]),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", ["4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"]),
        (f"{VISA}, 5555-5555-5555-4444", [VISA, "5555-5555-5555-4444"]),
        ("41 11 11 11 11 11 11 11", []),
        ("1 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", []),
        (f"1 {VISA}", [VISA]),
        ("4111111111111111a", []),
        ("beef4111111111111111", []),
        ("card4111111111111111", ["4111111111111111"]),
        (f"1234567890123456789012 {VISA}", [VISA]),
        ("4111111111111111111111", []),
        (f"{VISA}     {VISA}", [VISA, VISA]),
    ],
)
def test_numbers_are_found_at_the_edges_of_their_groups(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in scan_cards(text).spans] == found


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("no digits", 9),
        ("a 41", 2),
        ("a 41 ", 2),
        ("a 41    ", 8),
        ("a 41x", 5),
        ("a 1111 1111 41", 12),
        ("a 44444444444444444444444", 25),
        (f"a {VISA}", 2),
        (f"a {VISA} ", 2),
        (f"a {VISA}!", 22),
        ("a 123 4111", 6),
    ],
)
def test_of_a_growing_text_only_what_may_become_a_number_is_undecided(
    text: str, decided: int
) -> None:
    assert scan_cards(text, is_whole=False).decided == decided


def test_digits_that_continue_a_long_number_begin_no_card() -> None:
    text = f"999{VISA.replace(' ', '')}"

    assert scan_cards(text, 3).spans == []


@given(digits_and_gaps, digits_and_gaps)
def test_what_is_decided_stays(text: str, more: str) -> None:
    early = scan_cards(text, is_whole=False)
    late = scan_cards(text + more)

    decided = [span for span in early.spans if span.end <= early.decided]
    assert [span for span in late.spans if span.start < early.decided] == decided
