"""Sentences, facts and whom a title fits."""

from __future__ import annotations

import pytest

from infra.local.model_server.wording import (
    asked_facts,
    asks_price,
    fit_for_reader,
    is_fact,
    sentences,
)


def test_the_full_stop_of_an_abbreviation_ends_no_sentence() -> None:
    assert sentences(
        "Hunted, Dr. Tenma flees. Mrs. Li and Mr. Li stay. He ends. Vol. 2 is out."
    ) == [
        "Hunted, Dr. Tenma flees.",
        "Mrs. Li and Mr. Li stay.",
        "He ends.",
        "Vol. 2 is out.",
    ]
    assert sentences("Kaiju No. 8 by M. No. Not here.") == ["Kaiju No. 8 by M.", "No.", "Not here."]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("is it for my 9 year old?", ["no, it is rated teen"]),
        ("ok for a 14-year-old", ["yes, it is rated teen"]),
        ("suitable for kids?", ["no, it is rated teen"]),
        ("what is the age rating", ["age: teen"]),
        ("which year?", ["year: 1999"]),
        ("how old is it", ["age: teen", "year: 1999"]),
    ],
)
def test_whom_a_title_fits_is_another_question_than_its_year(
    question: str, said: list[str]
) -> None:
    assert asked_facts(question, "Age: teen. Year: 1999.") == said


def test_an_unknown_rating_fits_nobody_for_sure() -> None:
    assert fit_for_reader("for my 9 year old", "R-17") == ""
    assert fit_for_reader("for my 9 year old", "all ages") == "yes, it is rated all ages"


@pytest.mark.parametrize("question", ["what does it cost", "How much is it?", "price?"])
def test_a_question_for_a_price_is_known(question: str) -> None:
    assert asks_price(question)
    assert not asks_price("how many volumes")


def test_a_sentence_below_a_heading_is_no_fact() -> None:
    assert not is_fact("Delivery times: Standard shipping takes 3 days.")
    assert is_fact("Keywords: giant sword, one eye.")
