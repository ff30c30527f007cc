"""How a text looks to a person, character by character: digits of every script, wide letters, fancy dashes as ASCII.

Detectors search the likeness and cut the text, so both have the same length.
"""

from __future__ import annotations

import unicodedata

INVISIBLE = "\u200b"
"""What every character that nobody sees (zero width, soft hyphen, direction marks) becomes."""


def likeness(text: str) -> str:
    """The text as ASCII wherever it looks like ASCII; the same length, other characters unchanged."""
    return text if text.isascii() else text.translate(_table)


def folded(text: str) -> str:
    """The likeness without the difference of capitals; the same length."""
    return text.lower() if text.isascii() else likeness(text).translate(_fold)


class _Table(dict[int, str]):
    """Filled as characters are met; Unicode bounds it."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _plain(chr(code))
        return found


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Cf":
        return INVISIBLE
    if category == "Zs":
        return " "
    if category == "Pd" or character == "\u2212":
        return "-"
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if len(compatible) == 1 else character


class _Fold(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        small = character.casefold()
        found = self[code] = small if len(small) == 1 else character
        return found


_table = _Table()
_fold = _Fold()
