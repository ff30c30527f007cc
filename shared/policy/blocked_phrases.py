"""Phrases that no reply may hold, found while the reply is still growing.

A phrase is found whatever its capitals, white space and wide or invisible characters. Where it begins or ends with a
letter or digit it is found as whole words only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.errors import MalformedDocument
from shared.policy.likeness import INVISIBLE, folded

PHRASES_LIMIT = 500
_SHORTEST_CHARACTERS = 3
_LONGEST_CHARACTERS = 200


def parse_phrases(name: str, text: str) -> tuple[str, ...]:
    """One phrase a line; blank lines and lines that begin with `# ` are left out. Raises MalformedDocument."""
    phrases: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        phrase = line.strip()
        if not phrase or phrase == "#" or phrase.startswith("# "):
            continue
        if not _SHORTEST_CHARACTERS <= len(_normal(phrase)) <= _LONGEST_CHARACTERS:
            reason = f"a phrase has {_SHORTEST_CHARACTERS} to {_LONGEST_CHARACTERS} characters"
            raise MalformedDocument(name, number, reason)
        phrases.append(phrase)
    if len(phrases) > PHRASES_LIMIT:
        raise MalformedDocument(name, 0, f"holds more than {PHRASES_LIMIT} phrases")
    return tuple(phrases)


@dataclass
class _Node:
    """A beginning that phrases share."""

    is_word: bool = False
    is_space: bool = False
    is_end: bool = False
    following: dict[str, _Node] = field(default_factory=dict)


class PhraseBook:
    """Phrases ready to be looked for; made once, read by any number of matchers."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self._root = _Node()
        for phrase in phrases:
            self._add(_normal(phrase))

    @property
    def root(self) -> _Node:
        """Where every phrase begins."""
        return self._root

    def _add(self, phrase: str) -> None:
        node = self._root
        for character in phrase:
            is_space = character == " "
            fresh = _Node(is_word=character.isalnum(), is_space=is_space)
            node = node.following.setdefault(character, fresh)
        node.is_end = True


class PhraseMatcher:
    """Reads one text piece by piece; `held_from` is where a phrase may have begun, counted from the text's begin."""

    def __init__(self, book: PhraseBook) -> None:
        self._root = book.root
        self._starts = frozenset(book.root.following)
        self._begun: list[tuple[_Node, int]] = []
        self._is_after_word = False
        self._read = 0

    @property
    def held_from(self) -> int:
        """What stands before this place belongs to no phrase, whatever follows."""
        return self._begun[0][1] if self._begun else self._read

    def read(self, text: str) -> bool:
        """Read on; True when a phrase has come to its end."""
        text = folded(text)
        if not self._begun and text.isascii() and self._starts.isdisjoint(text):
            self._read += len(text)
            self._is_after_word = text[-1:].isalnum() if text else self._is_after_word
            return False
        for character in text:
            at = self._read
            self._read += 1
            if character == INVISIBLE:
                continue
            if self._step(" " if character.isspace() else character, at):
                return True
        return False

    def finish(self) -> bool:
        """True when the text ends with a phrase."""
        return any(node.is_end for node, _ in self._begun)

    def _step(self, character: str, at: int) -> bool:
        is_word = character.isalnum()
        begun = self._begun
        if not (is_word and self._is_after_word) and character in self._root.following:
            begun = [*begun, (self._root, at)]
        self._is_after_word = is_word
        if not begun:
            return False
        self._begun = []
        for node, start in begun:
            if node.is_end and not is_word:
                return True  # it waited for the end of its last word
            if node.is_space and character == " ":
                self._begun.append((node, start))
                continue
            following = node.following.get(character)
            if following is not None:
                if following.is_end and not is_word:
                    return True
                self._begun.append((following, start))
        return False


def _normal(phrase: str) -> str:
    return re.sub(r"\s+", " ", folded(phrase).replace(INVISIBLE, "")).strip()
