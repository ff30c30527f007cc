"""How much of a question's words a text holds."""

from __future__ import annotations

import pytest

from shared.adapters.word_index import WordIndex

TEXTS = ["a singer hears whales", "a kettle maker", "parcels take three days, a parcel costs four"]
INDEX = WordIndex(TEXTS)


def test_the_text_that_holds_all_words_has_most() -> None:
    shares = INDEX.shares("singers and whale")
    assert shares.argmax() == 0
    assert 0.5 < shares[0] < 1
    assert shares[1] == shares[2] == 0


def test_words_that_no_text_has_take_nothing_away() -> None:
    assert INDEX.shares("whales of zanzibar") == pytest.approx(INDEX.shares("whales"))


def test_a_word_that_is_said_again_counts_once() -> None:
    assert INDEX.shares("parcel parcel kettle") == pytest.approx(INDEX.shares("kettle parcel"))


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    index = WordIndex(["red kite", "red ball", "red car", "blue sea"])
    shares = index.shares("red sea")
    assert shares[3] > shares[0] > 0


@pytest.mark.parametrize("text", ["", "zanzibar", "🐋" * 500, "the of a"])
def test_nothing_shared_is_nought(text: str) -> None:
    assert not INDEX.shares(text).any()


def test_no_texts_share_nothing() -> None:
    assert WordIndex([]).shares("whales").shape == (0,)
