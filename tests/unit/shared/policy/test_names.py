from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.names import is_telling, plain_name, said_names


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
