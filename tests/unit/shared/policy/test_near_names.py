"""Misspelled names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy import near_names
from shared.policy.near_names import NearNames

NAMES = NearNames(
    ["naruto", "chainsaw man", "hunter x hunter", "nana", "monster"], frozenset({"monsters"})
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("naurto how many books", "naruto"),
        ("is narutoo finished", "naruto"),
        ("narto", "naruto"),
        ("Naru-to!", "naruto"),
        ("chain saw man creator", "chainsaw man"),
        ("chainsawman", "chainsaw man"),
        ("hunterxhunter", "hunter x hunter"),
        ("hunter x hnter", "hunter x hunter"),
        ("monster", "monster"),
    ],
)
def test_one_slip_still_says_the_name(text: str, name: str) -> None:
    assert NAMES.said(text) == {name}


@pytest.mark.parametrize(
    "text",
    [
        "nuratto",
        "nano",
        "cooking monsters",
        "",
        "men",
        "the chain",
        "naxyto",
        "aruton",
        "anruot",
        "ab" * 500,
    ],
)
def test_what_is_further_off_or_an_ordinary_word_says_none(text: str) -> None:
    assert NAMES.said(text) == frozenset()


def test_names_of_few_letters_are_never_near() -> None:
    assert NAMES.said("nna nan nana") == frozenset()


def test_words_longer_than_any_name_cost_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(word: str) -> set[str]:
        asked.append(len(word))
        return set()

    monkeypatch.setattr(near_names, "_neighbours", counted)

    assert NAMES.said("Ab" * 8_000 + " narutoo " + "c" * 14) == frozenset()
    assert asked == [7, 14]


def test_only_the_beginning_of_a_long_text_counts() -> None:
    assert NAMES.said("word " * 40 + "naruto") == frozenset()


@given(st.integers(0, 5), st.sampled_from("abcxyz"))
def test_any_one_letter_more_or_less_or_other_is_near(at: int, letter: str) -> None:
    name = "naruto"
    for said in (
        name[:at] + letter + name[at:],
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at + 1 :],
    ):
        assert "naruto" in NAMES.said(said)
