"""Which messages lean on what was said before, and what they mean."""

from __future__ import annotations

import pytest

from shared.policy.follow_up import (
    asks,
    choose_subjects,
    marked_text,
    may_lean,
    place_meant,
    points_back,
    says_little,
    search_text,
    stands_alone,
    wants_others,
)


@pytest.mark.parametrize(
    "text",
    [
        "how many volumes does it have?",
        "and the second one?",
        "who wrote that",
        "is it finished",
        "und wie viele Bände hat es?",
        "est-ce qu'il est terminé ?",
        "¿y quién es el autor?",
        "what about shipping",
        "how long?",
        "volumes",
    ],
)
def test_short_messages_that_point_back_or_say_little_may_lean(text: str) -> None:
    assert may_lean(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?!",
        "can you recommend a romance about adults who work in an office",
        "what did I ask first?",
        "what was my last question",
        "I would like to know whether it is possible to return a box set which arrived yesterday in the rain",
    ],
)
def test_messages_that_stand_alone_or_ask_for_the_talk_itself_do_not_lean(text: str) -> None:
    assert not may_lean(text)


def test_words_that_point_back_are_told_from_those_that_name() -> None:
    assert points_back("can they be returned")
    assert points_back("and to Canada?")
    assert not points_back("is there a student discount")


def test_saying_little_is_a_matter_of_telling_words() -> None:
    assert says_little("how long is it?", 0)
    assert not says_little("when will it arrive?", 0)
    assert says_little("when will it arrive?", 1)
    assert says_little("how many volumes does the first one have?", 1)
    assert not says_little("cosy stories about cooking")


@pytest.mark.parametrize(
    "text", ["is it good?", "tell me more", "and Canada", "the second one", "wer ist das"]
)
def test_questions_and_requests_ask(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["that's great, thanks!", "lol ok", "I liked it"])
def test_remarks_do_not_ask(text: str) -> None:
    assert not asks(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("the second one please", 1),
        ("Tell me about the FIRST", 0),
        ("what about the last", -1),
        ("und der zweite?", 1),
        ("la première", 0),
        ("el tercero", 2),
        ("when does the last volume come out", None),
        ("what happens in the second season", None),
        ("my first order", None),
        ("a second chance story", None),
    ],
)
def test_an_ordinal_means_a_title_unless_it_counts_something(text: str, place: int | None) -> None:
    assert place_meant(text) == place


@pytest.mark.parametrize(
    "text", ["any others?", "something similar", "more like these", "noch so was ähnliches"]
)
def test_asking_for_others_is_recognised(text: str) -> None:
    assert wants_others(text)
    assert not wants_others("who wrote it?")


def test_what_an_answer_sets_off_is_what_it_named() -> None:
    answer = 'Try **Given** or [Monster], given that you liked “Akira”, "Nana" or «Pluto».'

    assert marked_text(answer) == '"Given" | "Monster" | "Akira" | "Nana" | "Pluto"'
    assert marked_text("Try Given.") == "Try Given."


@pytest.mark.parametrize(
    ("question", "asked", "answered", "meant"),
    [
        ("who wrote it?", ["Naruto"], ["Naruto"], ("Naruto",)),
        ("who wrote it?", ["Naruto"], [], ("Naruto",)),
        ("who wrote it?", ["Naruto"], ["Bleach"], ("Naruto", "Bleach")),
        ("are they finished?", ["Naruto"], ["A", "B", "C", "D"], ("A", "B", "C")),
        ("the second one", ["Naruto"], ["Naruto", "A", "B"], ("B",)),
        ("the last one", [], ["A", "B"], ("B",)),
        ("the fifth one", [], ["A", "B"], ()),
        ("the first one", ["A", "B"], ["A", "B"], ("A",)),
        ("the first one", ["A"], [], ("A",)),
    ],
)
def test_the_titles_meant_are_chosen_from_the_question_and_the_answer_before(
    question: str, asked: list[str], answered: list[str], meant: tuple[str, ...]
) -> None:
    assert choose_subjects(question, asked, answered) == meant


def test_titles_are_searched_for_as_names() -> None:
    assert search_text("who wrote it?", ["Given"]) == 'who wrote it? "Given"'


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("horror", True),
        ("what about isekai?", True),
        ("recommend me something", True),
        ("more horror", False),
        ("noch mehr Horror", False),
        ("another romance", False),
        ("something like that", False),
        ("is it horror", False),
        ("the second one", False),
        ("the third", False),
    ],
)
def test_a_message_stands_alone_unless_it_points_back_or_asks_for_more(
    text: str, alone: bool
) -> None:
    assert stands_alone(text) is alone
