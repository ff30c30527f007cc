"""The titles of an index by name and by trait: what the catalogue and the recommender look up."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from shared.adapters.embedding import Vectors
from shared.contracts.knowledge import Passage, PassageEntry, SimilarTitle
from shared.policy.names import (
    everyday_words,
    is_meant,
    is_telling,
    mentions,
    plain_name,
    without_names,
)
from shared.policy.near_names import NearNames
from shared.policy.wish_limits import WishLimits, read_limits
from shared.policy.words import body_of

Trait = tuple[str, str]
"""A kind of fact and one of its values."""
# A theme says more about a title than its genre, and much more than the age of its readers.
_WEIGHTS = {"themes": 1.0, "genres": 0.7, "demographic": 0.5}
# Enough to order titles that share the same, too little to outweigh a theme.
_NEARNESS_WEIGHT = 0.2
_SHARED_THEMES = 2
_NAMED_SCORE = 1.0
_MIN_MISSPELT_CHARACTERS = 6
"""A shorter title is one letter away from too many ordinary words."""


class TitleShelf:
    """The passages of `passages` that have facts, `vectors` being those of all passages. Built in about 60 ms.

    A word of `vocabulary`, of the passages or of a trait is never taken for a misspelled title.
    """

    def __init__(
        self, passages: Sequence[PassageEntry], vectors: Vectors, vocabulary: Iterable[str] = ()
    ) -> None:
        rows = [row for row, entry in enumerate(passages) if entry.facts]
        self._entries = [passages[row] for row in rows]
        self._vectors = vectors[rows]
        self._by_name = _by_name(self._entries)
        self._longest_name = _longest(self._by_name)
        self._everyday = everyday_words(entry.text for entry in passages)
        self._traits = [_traits(entry) for entry in self._entries]
        self._rarity = _rarity(self._traits)
        self._weights = [self._weight(traits) for traits in self._traits]
        self._titles_of: dict[Trait, set[int]] = {}
        for at, traits in enumerate(self._traits):
            for trait in traits:
                self._titles_of.setdefault(trait, set()).add(at)
        self._traits_by_name: dict[str, list[Trait]] = {}
        for trait in self._rarity:
            for name in _names_of(trait[1]):
                self._traits_by_name.setdefault(name, []).append(trait)
        self._longest_trait = _longest(self._traits_by_name)
        written = map(plain_name, (*(body_of(entry.text) for entry in passages), *vocabulary))
        known = {word for words in (*written, *self._traits_by_name) for word in words.split()}
        self._near_names = NearNames(
            self._by_name, frozenset(known), shortest=_MIN_MISSPELT_CHARACTERS
        )

    def named(self, text: str, limit: int) -> tuple[Passage, ...]:
        """The first passage of each title that the text means: in order of mention, misspelled ones last."""
        return tuple(_passage(self._entries[at], _NAMED_SCORE) for at in self._named(text)[:limit])

    def traits(self, text: str) -> tuple[str, ...]:
        """The traits that the text says, in alphabetical order."""
        return tuple(sorted({value for _, value in self._asked(text)}))

    def similar(
        self, text: str, embed: Callable[[Sequence[str]], Vectors], limit: int
    ) -> tuple[SimilarTitle, ...]:
        """Titles with most in common with those named and the traits asked for, best first; none without either.

        What the text rules out is none of them (policy/wish_limits.py).

        Those that share two themes come before those that share less. When no title is named, `embed` of the text
        orders equals.
        """
        limits = read_limits(text)
        avoided = self._asked(limits.avoided)
        # Names are looked up in the whole text, as "no" is part of many ("Kimetsu no Yaiba").
        unwanted = self._named(limits.avoided)
        named = [at for at in self._named(text) if at not in unwanted]
        asked = self._asked(limits.wanted) - avoided
        wanted = asked.union(*(self._traits[at] for at in named)) - avoided
        if not wanted:
            return ()
        centre = self._vectors[named].mean(axis=0) if named else embed([text])[0]
        nearness: list[float] = (self._vectors @ centre).tolist()
        found: list[tuple[bool, float, int, list[Trait]]] = []
        for at in self._candidates(wanted, asked).difference(named, unwanted):
            if self._is_ruled_out(at, limits, avoided):
                continue
            shared = [trait for trait in self._traits[at] if trait in wanted]
            score = self._overlap(at, shared, wanted) + sum(trait in asked for trait in shared)
            is_close = not named or _themes(shared) >= _SHARED_THEMES
            found.append((is_close, score + _NEARNESS_WEIGHT * nearness[at], at, shared))
        found.sort(key=lambda each: (-each[0], -each[1], each[2]))
        like = tuple(dict.fromkeys(self._entries[at].title for at in named))
        return tuple(
            SimilarTitle(
                passage=_passage(self._entries[at], score),
                shares=tuple(dict.fromkeys(value for _, value in shared)),
                like=like,
            )
            for _, score, at, shared in found[:limit]
        )

    def _is_ruled_out(self, at: int, limits: WishLimits, avoided: set[Trait]) -> bool:
        facts = self._entries[at].facts
        volumes = re.match(r"\d+", "".join(facts.get("volumes", ())))
        if limits.most_volumes is not None and volumes and int(volumes[0]) > limits.most_volumes:
            return True
        words = f" {plain_name(limits.avoided)} "
        is_too_old = any(f" {plain_name(age)} " in words for age in facts.get("age", ()))
        return is_too_old or not avoided.isdisjoint(self._traits[at])

    def _candidates(self, wanted: Iterable[Trait], asked: Container[Trait]) -> set[int]:
        """Titles that share more than their readers, unless these are asked for."""
        telling = (trait for trait in wanted if trait[0] != "demographic" or trait in asked)
        return set().union(*(self._titles_of[trait] for trait in telling))

    def _overlap(self, at: int, shared: Iterable[Trait], wanted: Iterable[Trait]) -> float:
        """The weight of what is shared, as a share of all that either has."""
        in_common = self._weight(shared)
        return in_common / (self._weight(wanted) + self._weights[at] - in_common)

    def _weight(self, traits: Iterable[Trait]) -> float:
        return sum(map(self._rarity.__getitem__, traits))

    def _named(self, text: str) -> list[int]:
        found: dict[int, None] = {}
        said = list(mentions(text, self._by_name, self._longest_name))
        for name in said:
            if is_meant(text, name, self._everyday):
                found.update(dict.fromkeys(self._by_name[name]))
        for rest in without_names(text, said):
            for name in sorted(self._near_names.said(rest)):
                found.update(dict.fromkeys(self._by_name[name]))
        return list(found)

    def _asked(self, text: str) -> set[Trait]:
        return {
            trait
            for name in mentions(text, self._traits_by_name, self._longest_trait)
            for trait in self._traits_by_name[name]
        }


def _by_name(entries: Iterable[PassageEntry]) -> dict[str, list[int]]:
    by_name: dict[str, list[int]] = {}
    for at, entry in enumerate(entries):
        for name in {plain_name(name) for name in entry.names}:
            if is_telling(name):
                by_name.setdefault(name, []).append(at)
    return by_name


def _longest(names: Iterable[str]) -> int:
    return max((name.count(" ") + 1 for name in names), default=0)


def _traits(entry: PassageEntry) -> tuple[Trait, ...]:
    return tuple((kind, value) for kind in _WEIGHTS for value in entry.facts.get(kind, ()))


def _names_of(trait: str) -> set[str]:
    """How people say it: of "cooking and food" either half is enough."""
    return {name for name in map(plain_name, (trait, *trait.split(" and "))) if is_telling(name)}


def _rarity(traits: Sequence[Sequence[Trait]]) -> Mapping[Trait, float]:
    """The weight of each trait: more the fewer titles have it."""
    counts = Counter(trait for of_title in traits for trait in of_title)
    return {
        trait: _WEIGHTS[trait[0]] * (1 + math.log(len(traits) / count))
        for trait, count in counts.items()
    }


def _themes(traits: Iterable[Trait]) -> int:
    return sum(kind == "themes" for kind, _ in traits)


def _passage(entry: PassageEntry, score: float) -> Passage:
    return Passage(entry.id, entry.title, entry.text, score, entry.source_id)
