"""Recognising that a question names a document: its title, another name of it, or its author."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_NOT_WORD = re.compile(r"[\W_]+")
_MIN_CHARACTERS = 3
_MAX_WORDS_OF_TEXT = 200


def plain_name(text: str) -> str:
    """Letters and digits in lower case without accents, words parted by one blank: how names are compared."""
    # Compatibility forms hide capitals (a superscript A) and folding composes letters, hence both twice.
    folded = unicodedata.normalize("NFKD", text.casefold()).casefold()
    decomposed = unicodedata.normalize("NFKD", folded)
    bare = "".join(mark for mark in decomposed if not unicodedata.combining(mark))
    return _NOT_WORD.sub(" ", bare).strip()


def is_telling(name: str) -> bool:
    """True when a plain name is long enough to mean something when it is said."""
    return len(name) >= _MIN_CHARACTERS


def said_names(text: str, longest_words: int) -> Iterator[str]:
    """Every run of 1..`longest_words` words in the first 200 words of `text`, as plain names."""
    words = plain_name(text).split()[:_MAX_WORDS_OF_TEXT]
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest_words, len(words)) + 1):
            yield " ".join(words[start:end])
