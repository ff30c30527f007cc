"""Orders by the number that a message says."""

from __future__ import annotations

import pytest

from shared.contracts.orders import Order
from shared.policy.order_numbers import orders_meant

OWN = tuple(
    Order(number=number, status="shipped", placed_on="", lines=())
    for number in ("MA-10482", "MA-10377", "2026/991")
)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("where is MA-10482?", ["MA-10482"]),
        ("where is order ma-10377 and 10482", ["MA-10482", "MA-10377"]),
        ("bestellung 10377.", ["MA-10377"]),
        ("where is my order", [order.number for order in OWN]),
        ("where is MA-99999", [order.number for order in OWN]),
        ("volume 377 please", [order.number for order in OWN]),
    ],
)
def test_a_number_that_is_said_means_its_order(text: str, numbers: list[str]) -> None:
    assert [order.number for order in orders_meant(text, OWN)] == numbers
