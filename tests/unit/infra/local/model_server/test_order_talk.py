"""Which order a question means, and how it is told."""

from __future__ import annotations

import pytest

from infra.local.model_server.found_elements import Element
from infra.local.model_server.order_talk import talk_about_orders

UNDER_WAY = Element(
    "order",
    {
        "number": "MA-10482",
        "status": "shipped",
        "placed": "2026-11-27",
        "expected": "2026-12-02",
        "tracking": "PN 1",
    },
    "3 x Vinland Saga (44.97 USD); 1 x Yotsuba&!",
)
DELIVERED = Element(
    "order",
    {
        "number": "MA-10377",
        "status": "delivered",
        "placed": "a while ago",
        "return_by": "2026-12-18",
    },
    "1 x Fullmetal Alchemist, box set\nStill sealed?",
)
RETURNED = Element(
    "order",
    {
        "number": "MA-10121",
        "status": "returned",
        "placed": "2026-10-13",
        "refund": "12.99 USD on 2026-11-10",
    },
    "1 x Uzumaki",
)
ORDERS = (DELIVERED, UNDER_WAY, RETURNED)


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("Where is my order?", "MA-10482"),
        ("what about ma-10121", "MA-10121"),
        ("order 10377 please", "MA-10377"),
        ("Where is my Fullmetal Alchemist set?", "MA-10377"),
        ("Can I return it?", "MA-10377"),
        ("Did you send my refund?", "MA-10121"),
        ("I want a refund", "MA-10377"),
    ],
)
def test_the_order_meant_is_found(question: str, number: str) -> None:
    assert talk_about_orders(question, ORDERS).startswith(f"Order **{number}** is")


def test_an_order_is_told_in_sentences() -> None:
    assert talk_about_orders("Where is it?", [UNDER_WAY]) == (
        "Order **MA-10482** is **shipped**: placed on 27 November, expected on 2 December. "
        "It holds 3 × Vinland Saga (44.97 USD); 1 × Yotsuba&!. Its tracking number is PN 1."
    )
    assert "placed on a while ago" in talk_about_orders("order 10377", ORDERS)
    assert talk_about_orders("order 10377", ORDERS).endswith(
        "You can return it until 18 December. Still sealed?"
    )
    assert "Refund: 12.99 USD on 10 November." in talk_about_orders("refund", ORDERS)


def test_all_of_them_are_listed_when_asked_for() -> None:
    assert talk_about_orders("Show all my orders", ORDERS).count("\n- Order **MA-") == 3


def test_an_order_that_is_not_among_the_users_own_is_not_known() -> None:
    said = talk_about_orders("Where is order MA-99999?", ORDERS)

    assert said.startswith("I cannot see an order MA-99999 among yours.")
    assert "shipped" not in said


def test_without_open_orders_the_newest_is_meant_and_none_is_said_to_be_none() -> None:
    assert "MA-10377" in talk_about_orders("Where is my order?", [DELIVERED, RETURNED])
    assert talk_about_orders("Where is my order?", []) == "I see no orders of yours."
