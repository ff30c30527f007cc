from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.names import (
    everyday_words,
    is_meant,
    is_telling,
    mentions,
    plain_name,
    said_names,
    without_names,
)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Nausicaä of the Valley", "nausicaa of the valley"),
        ("  HAIKYU!! ", "haikyu"),
        ("One-Punch Man", "one punch man"),
        ("Spy x Family", "spy x family"),
        ("snake_case", "snake case"),
        ("鬼滅の刃", "鬼滅の刃"),
        ("!?", ""),
    ],
)
def test_plain_name_forgets_case_accents_and_punctuation(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@given(st.text())
def test_plain_name_of_a_plain_name_is_itself(text: str) -> None:
    once = plain_name(text)
    assert plain_name(once) == once


def test_said_names_finds_runs_of_words() -> None:
    assert set(said_names("Is One-Punch Man done?", 2)) == {
        "is", "is one", "one", "one punch", "punch", "punch man", "man", "man done", "done",
    }  # fmt: skip


def test_said_names_is_bounded_for_a_long_text() -> None:
    assert sum(1 for _ in said_names("word " * 5_000, 6)) <= 200 * 6


def test_is_telling_asks_for_three_characters() -> None:
    assert is_telling("nana")
    assert not is_telling("a")


def test_mentions_come_in_order_the_longer_of_two_that_overlap() -> None:
    known = {"naruto", "naruto gaiden", "gaiden", "one punch man"}

    assert list(mentions("One-Punch Man, Naruto Gaiden or NARUTO?", known, 3)) == [
        "one punch man",
        "naruto gaiden",
        "naruto",
    ]
    assert list(mentions("word " * 5_000 + "naruto", known, 3)) == []


def test_everyday_words_are_those_that_texts_write_small() -> None:
    assert everyday_words(["Given names are given.", "Naruto is 3x 鬼滅 über"]) == {
        "names",
        "are",
        "given",
    }


@pytest.mark.parametrize(
    "text",
    [
        "is naruto done?",
        "What is Given about",
        "I liked given",
        'do you have "given"',
        "given",
        "given?",
        "**Given** is",
    ],
)
def test_a_title_is_meant_when_it_is_written_like_one(text: str) -> None:
    name = "naruto" if "naruto" in text else "given"

    assert is_meant(text, name, {"given"})


@pytest.mark.parametrize(
    "text",
    ["given that it rains, when do you ship", "Given my order, where is it", "it was given away"],
)
def test_an_everyday_word_is_not_a_title(text: str) -> None:
    assert not is_meant(text, "given", {"given"})


def test_what_stands_between_known_names_is_left_without_them() -> None:
    text = "Is One Piece like one, or like Dr. Stone?"

    assert without_names(text, ["one", "one piece", "dr stone"]) == ["is", "like", "or like"]
    assert without_names("  ", ["one"]) == without_names("?", []) == []
    assert without_names("Only this", []) == ["only this"]
