"""Recognising that a question names a document: its title, another name of it, or its author."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator

_NOT_WORD = re.compile(r"[\W_]+")
_MIN_CHARACTERS = 3
_MAX_WORDS_OF_TEXT = 200
_SHORT_TEXT_WORDS = 2
# Verbs and prepositions that stand before what somebody names, in English, German, French and Spanish.
_BEFORE_TITLES = "about called enjoyed finished like liked love loved read reading than vs über wie aimé comme como"
_LOWER_CASE_WORD = re.compile(r"(?<![^\W_])[a-z]{3,}(?![^\W_])")


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


def mentions(text: str, known: Container[str], longest_words: int) -> Iterator[str]:
    """The known plain names that the first 200 words of `text` say, in order; of two that overlap the longer one."""
    words = plain_name(text).split()[:_MAX_WORDS_OF_TEXT]
    start = 0
    while start < len(words):
        for end in range(min(start + longest_words, len(words)), start, -1):
            name = " ".join(words[start:end])
            if name in known:
                yield name
                start = end
                break
        else:
            start += 1


def without_names(text: str, names: Iterable[str]) -> list[str]:
    """What `text` says between and around these plain names, as plain text; so no word means two names."""
    plain = plain_name(text)
    longest_first = sorted(set(names), key=lambda name: (-len(name), name))
    if longest_first:
        pattern = rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b"
        return [rest for rest in map(str.strip, re.split(pattern, plain)) if rest]
    return [plain] if plain else []


def everyday_words(texts: Iterable[str]) -> frozenset[str]:
    """Words that the texts write in lower case: a title of one such word is often not meant when it is said."""
    return frozenset(word for text in texts for word in _LOWER_CASE_WORD.findall(text))


def is_meant(text: str, name: str, everyday: Container[str]) -> bool:
    """Whether a plain name that `text` says means the title: an everyday word has to be written like one.

    That is in quotes or other marks, with a capital inside a sentence, after a word such as "like" or "about", or in a
    text of hardly more words.
    """
    if name not in everyday:
        return True
    word = re.escape(name)
    if re.search(rf"[\"'“”„«»\[*_]{word}[\"'“”«»\]*_]", text, re.IGNORECASE):
        return True
    if re.search(rf"\b(?:{_BEFORE_TITLES.replace(' ', '|')}) {word}\b", text, re.IGNORECASE):
        return True
    if re.search(rf"\w {re.escape(name[0].upper())}{re.escape(name[1:])}\b", text):
        return True
    return len(text.split()) <= _SHORT_TEXT_WORDS
