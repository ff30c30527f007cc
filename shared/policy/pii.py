"""Personal data that nobody needs to type here: found by shape and check digits, replaced by the name of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, Literal, NamedTuple

from shared.policy.card_numbers import Span, scan_cards
from shared.policy.ibans import scan_ibans
from shared.policy.likeness import likeness
from shared.policy.mail_addresses import mail_spans
from shared.policy.phone_numbers import phone_spans

PiiKind = Literal["iban", "email", "card", "phone"]
MASKS: Final[dict[PiiKind, str]] = {
    "iban": "[iban]",
    "email": "[mail]",
    "card": "[card]",
    "phone": "[phone]",
}
"""None is longer than the shortest thing it stands for, so a text never grows."""
_CAPITALS = str.maketrans(ascii_lowercase, ascii_uppercase)
_FINDERS: tuple[tuple[PiiKind, Callable[[str], list[Span]]], ...] = (
    ("iban", lambda plain: scan_ibans(plain.translate(_CAPITALS))[0]),
    ("email", mail_spans),
    ("card", lambda plain: scan_cards(plain).spans),
    ("phone", phone_spans),
)
_BLANK = "\0"
_SEVEN_DIGITS = re.compile(r"(?:\d\D{0,3}){7}")
_MAY_BE_MAIL = re.compile(r"[@＠﹫]|[(\[{（［]\s?at\s?[)\]}）］]", re.IGNORECASE)


class Found(NamedTuple):
    """A place in a text and what stands there."""

    kind: PiiKind
    span: Span


class Masked(NamedTuple):
    """A text without personal data, and the kinds that were replaced, in order."""

    text: str
    kinds: tuple[PiiKind, ...]


def find_pii(text: str) -> list[Found]:
    """Everything found, in order, without overlaps: what its check digits prove goes before what only looks like it."""
    if not (_SEVEN_DIGITS.search(text) or _MAY_BE_MAIL.search(text)):
        return []
    plain = likeness(text)
    every: list[Found] = []
    for kind, spans_of in _FINDERS:
        spans = spans_of(plain)
        every += [Found(kind, span) for span in spans]
        plain = blanked(plain, spans)
    return sorted(every, key=lambda found: found.span)


def mask_pii(text: str) -> Masked:
    """The text with each find replaced by its mask."""
    found = find_pii(text)
    if not found:
        return Masked(text, ())
    masks = [(span, MASKS[kind]) for kind, span in found]
    return Masked("".join(_pieces(text, masks)), tuple(one.kind for one in found))


def mask_values(value: Any) -> Any:
    """A JSON value with the personal data in its strings masked; names of fields and numbers stay."""
    match value:
        case str():
            return mask_pii(value).text
        case list():
            return [mask_values(item) for item in value]
        case dict():
            return {name: mask_values(item) for name, item in value.items()}
        case _:
            return value


def blanked(plain: str, spans: list[Span]) -> str:
    """The likeness with nothing to be found at the spans, of the same length."""
    if not spans:
        return plain
    return "".join(_pieces(plain, [(span, _BLANK * (span.end - span.start)) for span in spans]))


def _pieces(text: str, changes: list[tuple[Span, str]]) -> Iterator[str]:
    done = 0
    for (start, end), replacement in changes:
        yield text[done:start]
        yield replacement
        done = end
    yield text[done:]
