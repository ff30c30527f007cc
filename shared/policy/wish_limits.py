"""What a wish for titles rules out: traits and titles it does not want, and how many volumes are too many.

English and German; in other languages nothing is ruled out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FEW_VOLUMES = 10
"""Of a series that is "not too long"."""
_CLAUSE_END = re.compile(r"[.,;!?]\s+|\b(?:but|aber|sondern)\b", re.IGNORECASE)
_DISLIKED = re.compile(
    r"\b(?:(?:did|do|does)(?:n['’]?t| not) (?:really |much )?(?:like|love|enjoy)|hated?|disliked?)\b"
    r"|\b(?:mag|mochte|gefiel|gefällt)\b.*\bnicht\b|\bnicht (?:gefallen|gemocht)\b|\bhass(?:e|te)\b",
    re.IGNORECASE,
)
_RULED_OUT = re.compile(
    r"\b(?:no|not|without|ohne|kein(?:e[nrs]?)?|nicht)\s+(?!only\b|just\b|nur\b|more\b|mehr\b)"
    r"((?:[^\W_][\w-]*)(?:\s+[^\W_][\w-]*){0,2})",
    re.IGNORECASE,
)
_VOLUMES = r"\s*(?:volumes?|vols?|books?|bände|bänden|bänder|band)\b"
_AT_MOST = re.compile(
    rf"\b(?:at most|max(?:imum|imal)?|up to|no more than|not more than|höchstens|bis zu|nicht mehr als)"
    rf"\s+(\d{{1,3}}){_VOLUMES}",
    re.IGNORECASE,
)
_LESS_THAN = re.compile(
    rf"\b(?:less than|fewer than|under|below|weniger als|unter)\s+(\d{{1,3}}){_VOLUMES}",
    re.IGNORECASE,
)
_NOT_LONG = re.compile(r"\b(?:not|nicht) (?:too |so |very |zu |sehr )?(?:long|lang\w*)\b", re.I)


@dataclass(frozen=True)
class WishLimits:
    """A wish parted: the text that says what is wanted, that which says what is not, and the most volumes, if told."""

    wanted: str
    avoided: str = ""
    most_volumes: int | None = None


def read_limits(text: str) -> WishLimits:
    """Part a wish. What is not understood as ruled out stays wanted."""
    most = _most_volumes(text)
    rest = _AT_MOST.sub(" ", _LESS_THAN.sub(" ", _NOT_LONG.sub(" ", text)))
    avoided: list[str] = []
    if _DISLIKED.search(rest):
        clauses = _CLAUSE_END.split(rest)
        avoided = [clause for clause in clauses if _DISLIKED.search(clause)]
        rest = ", ".join(clause for clause in clauses if clause not in avoided)
    avoided += _RULED_OUT.findall(rest)
    return WishLimits(_RULED_OUT.sub(" ", rest), ", ".join(avoided), most)


def _most_volumes(text: str) -> int | None:
    at_most, less_than = _AT_MOST.search(text), _LESS_THAN.search(text)
    if at_most:
        return int(at_most[1])
    if less_than:
        return int(less_than[1]) - 1
    return _FEW_VOLUMES if _NOT_LONG.search(text) else None
