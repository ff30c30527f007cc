"""Understanding a message that leans on what was said before it, without a model.

A message in a language that follow_up_words.py does not know is searched for as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shared.policy.follow_up_words import (
    ABOUT_THE_TALK,
    ASKING,
    EMPTY,
    GOING_ON,
    MORE,
    OTHERS,
    PLACES,
    POINTING,
)

LOOK_BACK_TURNS = 3
"""A title named longer ago is no longer what "it" means."""
SUBJECTS = 3
SURE = 0.6
"""An intent of less confidence gives way to the title that was just talked about."""
_MAX_WORDS = 14
_FEW_CONTENT_WORDS = 2
_READ_CHARACTERS = 4_000
# Bounded, as a text of nothing but opening marks would be read to its end from each of them.
_MARKED = re.compile(
    r"\*\*(.{1,120}?)\*\*|\[([^\]\n]{1,120})\]|[“„«\"]([^“”„«»\"\n]{1,120})[”“»\"]"
)
_WORD = re.compile(r"[^\W_]+")


def may_lean(text: str) -> bool:
    """True when the message may mean something said before: it points back, goes on, or says next to nothing."""
    words = _words(text)
    if not words or len(words) > _MAX_WORDS or ABOUT_THE_TALK.search(text):
        return False
    return points_back(text) or says_little(text)


def points_back(text: str) -> bool:
    """True when a word of the message stands for something said before, or its beginning goes on with it."""
    return (
        not POINTING.isdisjoint(_words(text))
        or GOING_ON.match(text) is not None
        or place_meant(text) is not None
    )


def says_little(text: str, most_words: int = _FEW_CONTENT_WORDS) -> bool:
    """True when at most so many words of the message tell what it is about."""
    for _, words in PLACES:
        text = words.sub(" ", text)
    return len(set(_words(text)) - EMPTY) <= most_words


def asks(text: str) -> bool:
    """True when the message wants something to be said, and is no mere remark."""
    return bool(ASKING.search(text) or GOING_ON.match(text) or place_meant(text) is not None)


def wants_others(text: str) -> bool:
    """True when the message asks for more of the kind of what was said."""
    return OTHERS.search(text) is not None


def stands_alone(text: str) -> bool:
    """True when no word means something said before and nothing asks for more of it, though few words are said.

    That holds of a message that says what it wants; "and who wrote it?" does not.
    """
    is_further = MORE.search(text) is not None or wants_others(text)
    return not is_further and POINTING.isdisjoint(_words(text)) and place_meant(text) is None


def place_meant(text: str) -> int | None:
    """Which of several things the message means ("the second one"): an index, -1 the last, None without such a word."""
    return next((place for place, words in PLACES if words.search(text)), None)


def marked_text(answer: str) -> str:
    """What the beginning of an answer sets off by bold type, brackets or quotes, in order; all of it if nothing is."""
    answer = answer[:_READ_CHARACTERS]
    spans = [next(filter(None, found.groups())) for found in _MARKED.finditer(answer)]
    return " | ".join(f'"{span}"' for span in spans) or answer


def choose_subjects(
    question: str, asked: Sequence[str], answered: Sequence[str]
) -> tuple[str, ...]:
    """Of the titles in an earlier question and in its answer, those that the new question means.

    An ordinal counts through the answer's. Where the answer brought several new titles, they are meant before those
    that the user had named.
    """
    new = [title for title in answered if title not in asked]
    place = place_meant(question)
    listed = new or list(answered)
    if place is not None and listed:
        return tuple(listed[place : place + 1] if place >= 0 else listed[-1:])
    ordered = (*new, *asked) if len(new) > 1 else (*asked, *answered)
    return tuple(dict.fromkeys(ordered))[:SUBJECTS]


def search_text(question: str, subjects: Iterable[str]) -> str:
    """What to search for: the question and the titles it means, in quotes, as they are names."""
    return " ".join((question, *(f'"{subject}"' for subject in subjects)))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
