"""What is an IBAN, and where in a text."""

from __future__ import annotations

import pytest

from shared.policy.ibans import is_iban, scan_ibans

IBAN = "DE89 3704 0044 0532 0130 00"


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ("DE89370400440532013000", True),
        ("MT84MALT011000012345MTLCAST001S", True),
        ("DE89370400440532013001", False),
        ("DE8937040044053201300", False),
        ("XX89370400440532013000", False),
    ],
)
def test_country_length_and_check_digits_must_agree(account: str, expected: bool) -> None:
    assert is_iban(account) is expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"to {IBAN} please", [IBAN]),
        ("DE89-3704-0044-0532-0130-00", ["DE89-3704-0044-0532-0130-00"]),
        (f"{IBAN}, {IBAN}", [IBAN, IBAN]),
        (f"{IBAN}1", []),
        (f"{IBAN}漫", [IBAN]),
        ("DE89 3704 0044", []),
        ("DE89  3704 0044 0532 0130 00", []),
        ("DEX9 3704 0044 0532 0130 00", []),
        ("DE8X 3704 0044 0532 0130 00", []),
        ("ADE89370400440532013000", []),
        ("QQ89 3704", []),
        ("DE89 3704 äöü", []),
    ],
)
def test_accounts_are_found_with_their_separators(text: str, found: list[str]) -> None:
    spans, decided = scan_ibans(text)

    assert [text[slice(*span)] for span in spans] == found
    assert decided == len(text)


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("to DE", 5),
        ("to DE8", 5),
        ("to DE89 3704 0044", 5),
        (f"to {IBAN}", 5),
        (f"to {IBAN}.", 31),
        ("to DE89 Naruto", 14),
        ("to US89 3704", 12),
    ],
)
def test_of_a_growing_text_only_digits_behind_a_country_wait(text: str, decided: int) -> None:
    assert scan_ibans(text, is_whole=False)[1] == decided


def test_what_began_before_the_start_is_found_from_its_country_on() -> None:
    assert scan_ibans(f"to {IBAN}", 5)[0] == [(3, 30)]
