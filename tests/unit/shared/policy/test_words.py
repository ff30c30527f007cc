"""Words as the search counts them."""

from __future__ import annotations

from shared.policy.words import body_of, stems


def test_forms_of_a_word_are_one_and_small_words_are_none() -> None:
    assert stems("The Gambler and the gambling") == ("gambl", "gambl")


def test_accents_and_case_make_no_difference() -> None:
    assert stems("Café CAFE") == ("cafe", "cafe")


def test_nothing_is_left_of_small_words_and_single_letters() -> None:
    assert stems("what is a b of the") == ()


def test_the_body_of_a_passage_stands_behind_its_facts() -> None:
    assert body_of("Sea Song by Mina Ito.\nA singer and whales.") == "A singer and whales."
    assert body_of("Parcels take three days.") == "Parcels take three days."
