"""Titles by name and by trait: what the contract leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from shared.adapters.embedding import Vectors
from shared.adapters.title_shelf import TitleShelf
from shared.contracts.knowledge import PassageEntry


def entry(title: str, *names: str, text: str = "", **facts: tuple[str, ...]) -> PassageEntry:
    return PassageEntry(
        id=f"{title.lower()}#1",
        source_id=title.lower(),
        title=title,
        text=text,
        kind="series",
        names=(title, *names),
        facts=facts,
    )


def shelf(
    *entries: PassageEntry, vectors: list[list[float]] | None = None, known: Sequence[str] = ()
) -> TitleShelf:
    rows = vectors or [[0.0, 0.0]] * len(entries)
    return TitleShelf(entries, np.array(rows, np.float32).reshape(-1, 2), known)


def nowhere(texts: Sequence[str]) -> Vectors:
    return np.zeros((len(texts), 2), np.float32)


def similar(found: TitleShelf, text: str, limit: int = 9) -> list[str]:
    return [title.passage.title for title in found.similar(text, nowhere, limit)]


def test_titles_are_known_by_other_names_and_by_their_authors() -> None:
    found = shelf(
        entry("Monster", "Naoki Urasawa", themes=("guilt",)),
        entry("Pluto", "Naoki Urasawa", themes=("robots",)),
        entry("Shipping", "parcel"),
    )

    assert [p.title for p in found.named("anything by naoki urasawa?", 9)] == ["Monster", "Pluto"]
    assert found.named("parcel", 9) == ()  # no facts: a rule, not a title


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("recomend somthing like beserk", ["Berserk"]),
        ("i loved onepiece and narutoo", ["Naruto", "One Piece"]),
        ("Deth Note and Vinlnd Saga", ["Death Note", "Vinland Saga"]),
        ("beserk or Naruto", ["Naruto", "Berserk"]),  # what is certain first
        ("Death Note", ["Death Note"]),
        ("una historia", []),
        ("a nice pluta", []),  # too short to be sure
    ],
)
def test_a_misspelled_title_is_known_unless_it_is_another_word(
    text: str, titles: list[str]
) -> None:
    names = ("Berserk", "One Piece", "Naruto", "Death Note", "Death Notes", "Vinland Saga")
    found = shelf(
        *(entry(name, themes=("war",)) for name in (*names, "Historie", "Pluto")),
        known=("historia",),
    )

    assert [passage.title for passage in found.named(text, 9)] == titles


def test_a_title_that_is_an_everyday_word_has_to_be_written_like_one() -> None:
    found = shelf(entry("Given", text="All is given away.", themes=("music",)))

    assert found.named("given that it rains, is there a discount", 9) == ()
    assert [p.title for p in found.named("do you have Given", 9)] == ["Given"]


def test_two_shared_themes_come_before_one_however_rare() -> None:
    found = shelf(
        entry("Seed", themes=("war", "love", "rare")),
        entry("One", themes=("rare",)),
        entry("Two", themes=("war", "love")),
        *(entry(f"Other{n}", themes=("war", "love", "x", "y", "z")) for n in range(5)),
    )

    assert similar(found, "like Seed")[0] == "Two"
    assert similar(found, "like Seed")[-1] == "One"


def test_readers_alone_make_no_title_similar_but_may_be_asked_for() -> None:
    found = shelf(
        entry("Seed", themes=("war",), demographic=("seinen",)),
        entry("Same", themes=("cooking",), demographic=("seinen",)),
    )

    assert similar(found, "like Seed") == []
    assert similar(found, "any seinen?") == ["Seed", "Same"]


def test_either_half_of_a_trait_is_enough_to_ask_for_it() -> None:
    found = shelf(entry("Soup", themes=("cooking and food",)), entry("War", themes=("war",)))

    assert similar(found, "something with food") == ["Soup"]
    assert similar(found, "cooking please") == ["Soup"]
    assert similar(found, "please") == []


def test_equals_are_ordered_by_how_near_their_descriptions_are() -> None:
    found = shelf(
        entry("Seed", themes=("war",)),
        entry("Far", themes=("war",)),
        entry("Near", themes=("war",)),
        vectors=[[1, 0], [0, 1], [0.9, 0.1]],
    )

    assert similar(found, "like Seed") == ["Near", "Far"]
    near = found.similar("war please", lambda texts: np.array([[0, 1]], np.float32), 1)
    assert near[0].passage.title == "Far"


def test_what_is_shared_is_named_themes_first() -> None:
    found = shelf(
        entry("Seed", genres=("drama",), themes=("war",)),
        entry("Other", genres=("drama",), themes=("war",)),
    )

    (other,) = found.similar("like Seed", nowhere, 9)
    assert other.shares == ("war", "drama")
    assert other.like == ("Seed",)


@pytest.mark.parametrize("text", ["", "like Seed"])
def test_an_empty_shelf_has_nothing(text: str) -> None:
    assert shelf().similar(text, nowhere, 5) == ()
    assert shelf().named(text, 5) == ()


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("war", ["Long", "Old", "Love"]),
        ("war without love", ["Long", "Old"]),
        ("war, not mature", ["Long", "Love"]),
        ("Krieg oder war mit höchstens 3 Bänden", ["Old", "Love"]),
        ("I did not like Long", []),
        ("like Long but no love", ["Old"]),
    ],
)
def test_what_a_wish_rules_out_is_not_suggested(text: str, titles: list[str]) -> None:
    found = shelf(
        entry("Long", themes=("war",), volumes=("42+",)),
        entry("Old", themes=("war",), age=("mature",), volumes=("3",)),
        entry("Love", themes=("war", "love")),
    )

    assert similar(found, text) == titles


def test_a_no_inside_a_title_rules_nothing_out() -> None:
    found = shelf(entry("Kimetsu no Yaiba", themes=("war",)), entry("Other", themes=("war",)))

    assert similar(found, "like Kimetsu no Yaiba") == ["Other"]
    assert similar(found, "war, but no Other") == ["Kimetsu no Yaiba"]
