"""International bank account numbers in a text, whole or still growing: the country's length and mod 97 must agree."""

from __future__ import annotations

import re
from types import MappingProxyType

from shared.policy.card_numbers import Span
from shared.policy.likeness import INVISIBLE

_LENGTHS = MappingProxyType(
    {
        length: frozenset(countries.split())
        for length, countries in {
            15: "NO",
            16: "BE",
            18: "DK FI FK FO GL NL SD",
            19: "MK SI",
            20: "AT BA EE KZ LT LU MN XK",
            21: "CH CR HR LI LV",
            22: "BG BH DE GB GE IE ME RS",
            23: "AE GI IL IQ OM SO TL",
            24: "AD CZ ES MD PK RO SA SE SK TN VG",
            25: "LY PT ST",
            26: "IS TR",
            27: "BI DJ FR GR IT MC MR SM",
            28: "AL AZ BY CY DO GT HU LB NI PL SV",
            29: "BR EG PS QA UA",
            30: "JO KW MU YE",
            31: "MT SC",
            32: "LC",
            33: "RU",
        }.items()
    }
)
_LENGTH_OF = MappingProxyType(
    {country: length for length, countries in _LENGTHS.items() for country in countries}
)
_COUNTRY = re.compile("(?<![0-9A-Za-z])[A-Z]{2}(?=[0-9])")
_SEPARATORS = frozenset(f" -.{INVISIBLE}")
_ACCOUNT = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset("0123456789")


def is_iban(account: str) -> bool:
    """True for an IBAN in capitals without separators."""
    if len(account) != _LENGTH_OF.get(account[:2]):
        return False
    turned = account[4:] + account[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def scan_ibans(plain: str, start: int = 0, *, is_whole: bool = True) -> tuple[list[Span], int]:
    """The IBANs of a likeness in capitals whose digits begin at `start` or later, and where certainty ends.

    What stands before that place is not changed by what may follow, when `is_whole` is False; the two letters of a
    country never have to wait, only the digits behind them.
    """
    spans: list[Span] = []
    at = max(0, start - 2)
    while (country := _COUNTRY.search(plain, at)) is not None:
        length = _LENGTH_OF.get(country[0])
        end = None if length is None else _end_of(plain, country.start(), length, is_whole)
        if end == _UNDECIDED:
            return spans, country.end()
        if end:
            spans.append(Span(country.start(), end))
        at = end or country.end()
    return spans, len(plain)


_UNDECIDED = -1


def _end_of(plain: str, start: int, length: int, is_whole: bool) -> int | None:
    """Where the IBAN that begins at `start` ends: None = there is none, _UNDECIDED = the text is too short to say."""
    account = plain[start : start + 2]
    at = start + 2
    while len(account) < length:
        if plain[at : at + 1] in _SEPARATORS and len(account) > 2:
            at += 1
        character = plain[at : at + 1]
        if not character:
            return None if is_whole else _UNDECIDED
        if character not in (_DIGITS if len(account) < 4 else _ACCOUNT):
            return None
        account += character
        at += 1
    if not is_whole and at == len(plain):
        return _UNDECIDED
    goes_on = plain[at : at + 1].isascii() and plain[at : at + 1].isalnum()
    return at if not goes_on and is_iban(account) else None
