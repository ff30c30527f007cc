"""Orders to try questions on."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from infra.local.sample_orders import sample_orders, with_days
from shared.adapters.s3_orders import orders_key
from shared.contracts.orders import Order

FOLDER = Path(__file__).parents[4] / "knowledge" / "orders"


def test_days_are_told_from_today() -> None:
    text = '{today-3} {today} {today+2} {"a": 1} {tomorrow}'

    assert (
        with_days(text, date(2026, 12, 31))
        == '2026-12-28 2026-12-31 2027-01-02 {"a": 1} {tomorrow}'
    )


@pytest.mark.parametrize("user", ["dev", "ana"])
def test_sample_orders_are_orders_of_a_user_under_way_in_the_present(user: str) -> None:
    found = dict(sample_orders(FOLDER, date(2026, 11, 30)))

    body = msgspec.json.decode(
        found[f"default/{user}.json"], type=dict[str, tuple[Order, ...]], strict=True
    )
    orders = body["orders"]
    assert orders[0].placed_on < "2026-11-30" < orders[0].expected_on
    assert [order.placed_on for order in orders] == sorted(
        (o.placed_on for o in orders), reverse=True
    )
    assert orders_key("", "default", user) in found


def test_no_two_users_share_an_order() -> None:
    numbers = [
        order["number"]
        for body in dict(sample_orders(FOLDER, date(2026, 11, 30))).values()
        for order in msgspec.json.decode(body)["orders"]
    ]
    assert len(numbers) == len(set(numbers))
