"""Payment card numbers in a text, whole or still growing: brand prefix, length and check digit (Luhn) must agree."""

from __future__ import annotations

import re
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from shared.policy.likeness import INVISIBLE

MAX_DIGITS = 19
_MIN_DIGITS = 13
_SEPARATORS = f" .,\\-_\n{INVISIBLE}"
_RUN = re.compile(f"[0-9]+(?:[{_SEPARATORS}]{{1,3}}[0-9]+)*")
_SINGLE_BEFORE = re.compile(f"(?<![0-9])[0-9][{_SEPARATORS}]{{1,3}}\\Z")
_GROUP = re.compile("[0-9]+")
_OPEN_END = re.compile(f"[{_SEPARATORS}]{{0,3}}\\Z")
_HEX_TOKEN = re.compile("(?<![0-9A-Za-z])[0-9A-Fa-f]{1,64}\\Z")
_FIRST_DIGITS = frozenset("2345689")
_DOUBLED = MappingProxyType(dict(zip("0123456789", (0, 2, 4, 6, 8, 1, 3, 5, 7, 9), strict=True)))
_HEX_LETTERS = frozenset("abcdefABCDEF")
_LOOK_BACK = 65
_BRAND = re.compile(
    """
    4 (?: \\d{12} | \\d{15} | \\d{18} )                                       # Visa
    | (?: 5[1-5] | 222[1-9] | 22[3-9]\\d | 2[3-6]\\d\\d | 27[01]\\d | 2720 ) \\d{12,14}  # Mastercard
    | 3[47] \\d{13}                                                          # American Express
    | 3 (?: 0[0-5] | [689] ) \\d{11,17}                                       # Diners Club
    | 35 (?: 2[89] | [3-8] ) \\d{12,16}                                       # JCB
    | (?: 5[0678] | 6 ) \\d{11,18}                     # Maestro, Discover, UnionPay, RuPay
    | (?: 220[0-4] | 9792 | 8[12] ) \\d{12,17}                                # Mir, Troy, UnionPay
    """,
    re.VERBOSE,
)


class Span(NamedTuple):
    """A place in a text."""

    start: int
    end: int


class CardScan(NamedTuple):
    """Card numbers in order; before `decided` nothing that follows can change them or add one."""

    spans: list[Span]
    decided: int


def is_card_number(digits: str) -> bool:
    """True for the digits of a card number without separators."""
    return (
        _MIN_DIGITS <= len(digits) <= MAX_DIGITS
        and _BRAND.fullmatch(digits) is not None
        and _passes_luhn(digits)
        and not _is_article_number(digits)
    )


def scan_cards(plain: str, start: int = 0, *, is_whole: bool = True) -> CardScan:
    """Find the card numbers of a likeness from `start` on; what stands before it is context.

    With `is_whole` False the text may go on.
    """
    spans: list[Span] = []
    for found in _RUN.finditer(plain, start):
        run = _Run(plain, *found.span())
        is_open = not is_whole and _OPEN_END.match(plain, found.end()) is not None
        # Digits that continue what stands before `start` are the rest of a longer number.
        first = 1 if plain[max(0, found.start() - 1) : found.start()].isdigit() else 0
        while first < len(run.groups):
            last, is_decided = run.longest_card(first, is_open)
            if not is_decided:
                return CardScan(spans, run.groups[first].start)
            if last is not None:
                spans.append(Span(run.groups[first].start, run.groups[last].end))
            first = (first if last is None else last) + 1
    return CardScan(spans, len(plain))


class _Run:
    """Groups of digits with nothing but separators between them."""

    def __init__(self, plain: str, start: int, end: int) -> None:
        self.groups = [Span(*group.span()) for group in _GROUP.finditer(plain, start, end)]
        self._plain = plain
        self._digits = "".join(plain[slice(*group)] for group in self.groups)
        sizes = (end - start for start, end in self.groups)
        self._begins = list(accumulate(sizes, initial=0))  # of each group in `_digits`

    def longest_card(self, first: int, is_open: bool) -> tuple[int | None, bool]:
        """The last group of the longest card number that begins with group `first`, and whether that is certain."""
        begin = self._begins[first]
        if self._digits[begin] not in _FIRST_DIGITS:
            return None, True
        if self._continues_single_digits(first) and not (is_open and first == len(self.groups) - 1):
            return None, True
        longest = None
        for last in range(first, len(self.groups)):
            end = self._begins[last + 1]
            if end - begin > MAX_DIGITS:
                return longest, True
            if end - begin < _MIN_DIGITS or not is_card_number(self._digits[begin:end]):
                continue
            window = self.groups[first : last + 1]
            if _is_spaced_like_a_card(window) and not _is_hex(self._plain, window):
                longest = last
        return longest, not is_open

    def _continues_single_digits(self, at: int) -> bool:
        """True within a row of single digits: only a whole row is read as a number, not every part of it."""
        start, end = self.groups[at]
        if end - start > 1:
            return False
        return _SINGLE_BEFORE.search(self._plain, max(0, start - 4), start) is not None


def _is_spaced_like_a_card(groups: list[Span]) -> bool:
    """Digit by digit, or in groups of three and more with a rest at the end."""
    sizes = [end - start for start, end in groups]
    return all(size >= 3 for size in sizes[:-1]) or all(size == 1 for size in sizes)


def _is_hex(plain: str, groups: list[Span]) -> bool:
    """True for a part of a hexadecimal number, such as a checksum."""
    start, end = groups[0].start, groups[-1].end
    if plain[end : end + 1] in _HEX_LETTERS:
        return True
    before = _HEX_TOKEN.search(plain, max(0, start - _LOOK_BACK), start)
    return before is not None


def _is_article_number(digits: str) -> bool:
    """True for an EAN-13: German and Japanese ones begin like the few cards of thirteen digits."""
    if len(digits) != 13:
        return False
    return sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10 == 0


def _passes_luhn(digits: str) -> bool:
    total = sum(map(int, digits[-1::-2])) + sum(map(_DOUBLED.__getitem__, digits[-2::-2]))
    return total % 10 == 0
