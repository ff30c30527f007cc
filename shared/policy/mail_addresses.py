"""E-mail addresses in a text: Latin, Greek or Cyrillic letters, plain or written as `ana (at) example (dot) com`."""

from __future__ import annotations

import re

from shared.policy.card_numbers import Span

_LETTERS = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u03ff\u0400-\u04ff"
_WORD = f"0-9{_LETTERS}"
_AT = re.compile(r"@|[ ]?[(\[{][ ]?at[ ]?[)\]}][ ]?", re.IGNORECASE)
_LOCAL = re.compile(rf"[{_WORD}](?:[{_WORD}._%+'/\-]{{0,62}}[{_WORD}_+\-])?\Z")
_LOCAL_LIMIT = 64
_DOT = r"(?:\.|[ ]?[(\[{][ ]?(?:dot|punkt|punto|point)[ ]?[)\]}][ ]?)"
_DOMAIN = re.compile(
    rf"(?:[{_WORD}](?:[{_WORD}\-]{{0,61}}[{_WORD}])?{_DOT}){{1,8}}(?P<top>xn--[0-9a-z\-]{{2,59}}|[{_LETTERS}]{{2,24}})"
    rf"(?![{_WORD}])",
    re.IGNORECASE,
)
_PICTURE_TYPES = frozenset(["png", "jpg", "jpeg", "gif", "webp", "svg", "avif", "heic"])


def mail_spans(plain: str) -> list[Span]:
    """The addresses in a likeness, in order."""
    spans: list[Span] = []
    done = 0
    for at in _AT.finditer(plain):
        domain = _DOMAIN.match(plain, at.end())
        if domain is None or domain["top"].lower() in _PICTURE_TYPES:
            continue
        local = _LOCAL.search(plain, max(done, at.start() - _LOCAL_LIMIT), at.start())
        if local is not None:
            done = domain.end()
            spans.append(Span(local.start(), done))
    return spans
