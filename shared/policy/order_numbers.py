"""Which of a user's own orders a message names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.contracts.orders import Order

_NUMBER = re.compile(r"[^\W_][\w-]*\d[\w-]*|\d+")
_MIN_CHARACTERS = 4


def orders_meant(text: str, own: Sequence[Order]) -> tuple[Order, ...]:
    """The orders whose number, or its end, the text says; all of them when it says none of theirs."""
    said = [number.casefold() for number in _NUMBER.findall(text) if len(number) >= _MIN_CHARACTERS]
    meant = tuple(order for order in own if any(order.number.casefold().endswith(n) for n in said))
    return meant or tuple(own)
