"""Phrases that no reply may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import MalformedDocument
from shared.policy.blocked_phrases import PHRASES_LIMIT, PhraseBook, PhraseMatcher, parse_phrases

BOOK = PhraseBook(("Secret plan", "<passages>", "kill", "#tag#"))


def finds(text: str, book: PhraseBook = BOOK) -> bool:
    matcher = PhraseMatcher(book)
    return matcher.read(text) or matcher.finish()


@pytest.mark.parametrize(
    "text",
    [
        "the secret plan",
        "SECRET\n\t PLAN.",
        "se\u200bcret\u00a0plan!",
        "ｓｅｃｒｅｔ plan",
        "secret secret plan",
        "x<PASSAGES>y",
        "to kill.",
        "kill",
        "a#tag#b",
        "İ kill",
    ],
)
def test_a_phrase_is_found_however_it_is_written(text: str) -> None:
    assert finds(text)


@pytest.mark.parametrize(
    "text",
    ["secret", "secretplan", "secret planet", "skill", "killer", "<passage>", "", "secret a plan"],
)
def test_other_words_are_no_phrase(text: str) -> None:
    assert not finds(text)


@pytest.mark.parametrize(
    ("text", "held_from"),
    [
        ("hello", 5),
        ("a secr", 2),
        ("a secret  ", 2),
        ("a secret x", 10),
        ("skil", 4),
        ("to kill", 3),
        ("to kills", 8),
        ("secret secret", 7),
    ],
)
def test_only_the_beginning_of_a_phrase_is_held(text: str, held_from: int) -> None:
    matcher = PhraseMatcher(BOOK)
    assert not matcher.read(text)
    assert matcher.held_from == held_from


@given(st.text("secrt plank<i>\u200b", max_size=30), st.integers(0, 30))
def test_where_a_text_is_cut_does_not_matter(text: str, cut: int) -> None:
    matcher = PhraseMatcher(BOOK)
    in_pieces = matcher.read(text[:cut]) or matcher.read(text[cut:]) or matcher.finish()

    assert in_pieces == finds(text)


def test_a_file_holds_one_phrase_a_line() -> None:
    text = "# a note\n\n#\n secret plan \n#tag\n"

    assert parse_phrases("blocked.txt", text) == ("secret plan", "#tag")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("fine words\nab", 2, "a phrase has 3 to 200 characters"),
        ("x" * 201, 1, "a phrase has 3 to 200 characters"),
        ("word\n" * (PHRASES_LIMIT + 1), 0, "holds more than 500 phrases"),
    ],
)
def test_what_is_no_phrase_is_named(text: str, line: int, reason: str) -> None:
    with pytest.raises(MalformedDocument) as caught:
        parse_phrases("blocked.txt", text)

    assert (caught.value.document, caught.value.line, caught.value.reason) == (
        "blocked.txt",
        line,
        reason,
    )
