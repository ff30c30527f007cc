"""Names that somebody misspelled: one letter too many, too few, wrong or swapped, or blanks put elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.policy.names import plain_name

_MIN_CHARACTERS = 5
"""Shorter names are one letter away from too many ordinary words."""
_QUESTION_WORDS = 40
_NAME_WORDS = 5


class NearNames:
    """Plain names by what is left of them without one letter; a few microseconds for each word of a question.

    A word of `vocabulary` is never taken for a misspelled name of one word, nor is anything of less than `shortest`
    letters for any name.
    """

    def __init__(
        self,
        names: Iterable[str],
        vocabulary: frozenset[str],
        *,
        shortest: int = _MIN_CHARACTERS,
    ) -> None:
        self._vocabulary = vocabulary
        self._shortest = shortest
        self._longest = 0
        self._names: dict[str, set[str]] = {}
        for name in names:
            joined = name.replace(" ", "")
            if len(joined) < shortest:
                continue
            self._longest = max(self._longest, len(joined))
            for left in _neighbours(joined):
                self._names.setdefault(left, set()).add(name)

    def said(self, text: str) -> frozenset[str]:
        """The names that the first 40 words of `text` nearly say, those included that it says in full."""
        words = plain_name(text).split()[:_QUESTION_WORDS]
        return frozenset(
            name for run in _runs(words) if self._may_name(run) for name in self._near("".join(run))
        )

    def _may_name(self, run: list[str]) -> bool:
        # Longer than any name by two letters is near none, and its neighbours are as many as its letters.
        if not self._shortest <= sum(map(len, run)) <= self._longest + 1:
            return False
        return len(run) > 1 or run[0] not in self._vocabulary

    def _near(self, joined: str) -> Iterator[str]:
        for left in _neighbours(joined):
            for name in self._names.get(left, ()):
                if _is_near(joined, name.replace(" ", "")):
                    yield name


def _runs(words: list[str]) -> Iterator[list[str]]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + _NAME_WORDS, len(words)) + 1):
            yield words[start:end]


def _neighbours(word: str) -> set[str]:
    """The word, and all that is left of it without one letter."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _is_near(said: str, name: str) -> bool:
    """One edit apart, two swapped letters being one; two words that share a neighbour may be two edits apart."""
    if said == name:
        return True
    start = 0
    while start < min(len(said), len(name)) and said[start] == name[start]:
        start += 1
    said, name = said[start:], name[start:]
    if len(said) == len(name):
        is_swap = said[:2] == name[:2][::-1] and said[2:] == name[2:]
        return said[1:] == name[1:] or is_swap
    longer, shorter = (said, name) if len(said) > len(name) else (name, said)
    return longer[1:] == shorter
