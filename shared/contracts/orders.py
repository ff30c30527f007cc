"""What a user has bought, as far as an answer may tell it."""

from __future__ import annotations

import msgspec


class OrderLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an order. `price` is for the whole line, with its currency."""

    title: str
    quantity: int = 1
    price: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One order. Days are ISO dates, empty when unknown or not reached yet; `note` is for the reader."""

    number: str
    status: str
    placed_on: str
    lines: tuple[OrderLine, ...]
    total: str = ""
    shipped_on: str = ""
    expected_on: str = ""
    delivered_on: str = ""
    return_by: str = ""
    refund: str = ""
    tracking: str = ""
    note: str = ""
