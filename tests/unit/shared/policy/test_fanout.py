"""Which sources an intent asks for, and which findings fit."""

from __future__ import annotations

import pytest

from shared.contracts.knowledge import GENERAL_INTENT, Intent, Passage, SimilarTitle
from shared.policy.fanout import fitting, merged, settle_intent, sources_for

INTENT_LABELS = (
    "recommendation",
    "product_question",
    "order_status",
    "returns",
    "shipping",
    "promotion",
    "chit_chat",
    "human",
    "out_of_scope",
)


def passage(document: str, score: float = 1.0, number: int = 1) -> Passage:
    return Passage(f"{document}#{number}", document.title(), "text", score, document)


def test_an_unsure_intent_becomes_general() -> None:
    assert settle_intent(Intent("returns", 0.34), 0.35) == Intent(GENERAL_INTENT, 0.34)
    assert settle_intent(Intent("returns", 0.35), 0.35).label == "returns"


@pytest.mark.parametrize(
    "label", sorted({*INTENT_LABELS, GENERAL_INTENT} - {"chit_chat", "out_of_scope"})
)
def test_every_intent_but_idle_talk_asks_retrieval(label: str) -> None:
    assert "retrieval" in sources_for(label)


def test_orders_are_asked_for_questions_about_orders_only() -> None:
    asking = {label for label in (*INTENT_LABELS, GENERAL_INTENT) if "orders" in sources_for(label)}
    assert asking == {"order_status", "returns"}


def test_small_talk_asks_nothing_and_what_seems_out_of_scope_may_still_name_a_title() -> None:
    assert sources_for("chit_chat") == ()
    assert sources_for("out_of_scope") == ("catalogue",)


def test_a_label_of_somebody_elses_is_searched_for() -> None:
    assert sources_for("wheel_truing") == ("retrieval",)


def test_passages_far_from_the_question_or_from_the_best_are_no_sources() -> None:
    near, middling, far = passage("near", 0.9), passage("middling", 0.37), passage("far", 0.35)

    assert fitting([near, middling, far], floor=0.2) == (near, middling)
    assert fitting([passage("far", 0.19)], floor=0.2) == ()
    assert fitting([], floor=0.2) == ()


def test_two_passages_of_a_document_leave_room_for_another() -> None:
    long = [passage("long", number=number) for number in range(1, 5)]
    other = passage("other", 0.5)

    assert merged([], [*long, other], [], 3) == (long[0], long[1], other)
    assert merged([], [*long, other], [], 9) == (long[0], long[1], other, long[2], long[3])


def test_passages_come_once_facts_first_without_what_is_suggested_or_compared_with() -> None:
    facts, found, other = passage("akira"), passage("shipping", 0.8), passage("akira", 0.7, 2)
    similar = SimilarTitle(passage=passage("pluto"), shares=("robots",), like=("Astro", "Other"))

    assert merged([facts], [found, other, facts], [], 5) == (facts, found, other)
    assert merged([facts], [found, other], [], 2) == (facts, found)
    assert merged([], [passage("pluto"), passage("astro"), found], [similar], 5) == (found,)
