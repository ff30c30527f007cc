"""Phone numbers in a text: by their shape, or by a word before them that announces one.

A number that an order, an article or the like announces is none, unless it begins with `+`.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from shared.policy.card_numbers import Span
from shared.policy.likeness import INVISIBLE

_GAP = f"[ .\\-/(){INVISIBLE}]{{0,3}}"
_BEFORE = r"(?<![0-9A-Za-z+#=_.,/\-])(?<![0-9][ \-/])"
_AFTER = r"(?![0-9])"
_INTERNATIONAL = re.compile(
    rf"(?<![0-9A-Za-z+])\+{_GAP}(?:1{_GAP}[2-9]|[2-9])(?:{_GAP}[0-9]){{6,13}}{_AFTER}"
)
_SHAPES = re.compile(
    rf"""{_BEFORE}(?:
    00{_GAP}[1-9](?:{_GAP}[0-9]){{7,14}}                                       # international
    | (?! [0-3][0-9][./\-][01][0-9][./\-](?:19|20)[0-9]{{2}} )                  # no date
      \(?0[1-9](?:{_GAP}[0-9]){{7,10}}                                         # trunk prefix
    | (?: 1[ .\-] )? (?: \([2-9][0-9]{{2}}\) | [2-9][0-9]{{2}} )[ .\-]{{1,2}}[1-9][0-9]{{2}}[ .\-][0-9]{{4}}  # America
    | \((?!19|20)[1-9][0-9]{{1,3}}\)[ ]?[0-9]{{3,5}}[ .\-]?[0-9]{{4}}            # area code in brackets
    | 8[ \-]?\(?9[0-9]{{2}}\)?[ \-]?[0-9]{{3}}[ \-][0-9]{{2}}[ \-][0-9]{{2}}     # Russia
    ){_AFTER}""",
    re.VERBOSE,
)
_ANNOUNCED = re.compile(rf"{_BEFORE}\(?[0-9](?:{_GAP}[0-9]){{6,14}}{_AFTER}")
_PHONE_WORDS = re.compile(
    r"""\b(?:tel|tél|telef\w*|teléf\w*|téléph\w*|phones?|telephone|ph|n[uú]m(?:ero|mer|er)|mobil\w*|mob|cell|
    cellulare|celular|handy\w*|rufnummer|portable|m[oó]vil|whatsapp|signal|call|ring|reach\ me|text\ me|sms|fax|
    my\ number|appele[rz]|ll[aá]ma\w*|ruf\w*|bel|тел|телефон\w*|позвони\w*|мобильн\w*|zadzwo\w*)\b
    |電話|でんわ|携帯|ケータイ|नंबर|फ़ोन|هاتف|جوال|טלפון""",
    re.VERBOSE | re.IGNORECASE,
)
_OTHER_WORDS = re.compile(
    r"""\b(?:orders?|bestell\w*|commande|pedido|ordine|zam[oó]wieni\w*|isbn\w*|asin|ean|sku|items?|artic\w*|artik\w*|
    tracking|sendung\w*|invoice|rechnung\w*|factur\w*|ref|reference|ticket|booking|kunden\w*|customer|client\w*|
    account|konto\w*|id|code|zip|plz|vat|serial|volumes?|vols?|chapters?|pages?)\b|注文|№|\#""",
    re.VERBOSE | re.IGNORECASE,
)
_CONTEXT = 32


def phone_spans(plain: str) -> list[Span]:
    """The phone numbers in a likeness, in order."""
    words = _Words(plain)
    spans = [Span(*found.span()) for found in _INTERNATIONAL.finditer(plain)]
    for found in _SHAPES.finditer(plain):
        announced = words.announce(found.start())
        if announced == "phone" or (not announced and not _is_isbn(found[0])):
            spans.append(Span(*found.span()))
    spans += [
        Span(*found.span())
        for found in _ANNOUNCED.finditer(plain)
        if words.announce(found.start()) == "phone"
    ]
    return _without_overlaps(spans)


class _Words:
    """Where the telling words of a text end."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._ends: tuple[list[int], list[int]] | None = None

    def announce(self, start: int) -> str:
        """What the nearest telling word shortly before `start` calls what stands there: `phone`, `other` or nothing."""
        if self._ends is None:
            self._ends = (
                [found.end() for found in _PHONE_WORDS.finditer(self._plain)],
                [found.end() for found in _OTHER_WORDS.finditer(self._plain)],
            )
        phone, other = (_last_before(ends, start) for ends in self._ends)
        if max(phone, other) < start - _CONTEXT:
            return ""
        return "phone" if phone > other else "other"


def _last_before(ends: list[int], start: int) -> int:
    at = bisect_right(ends, start)
    return ends[at - 1] if at else -_CONTEXT - 1


def _without_overlaps(spans: list[Span]) -> list[Span]:
    """In order; of those that overlap the one that begins first, the longer of two that begin together."""
    kept: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _is_isbn(number: str) -> bool:
    """True for ten digits with the check digit of an ISBN."""
    if len(number) != 10 or not number.isdigit():
        return False
    return sum((10 - place) * int(digit) for place, digit in enumerate(number)) % 11 == 0
