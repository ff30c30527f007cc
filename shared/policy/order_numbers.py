"""Which of a user's own orders a message names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.contracts.orders import Order

_WORD = re.compile(r"[\w-]+")
_MIN_CHARACTERS = 4


def orders_meant(text: str, own: Sequence[Order]) -> tuple[Order, ...]:
    """The orders whose number, or its end, the text says; all of them when it says none of theirs."""
    said = [
        word.casefold()
        for word in _WORD.findall(text)
        if len(word) >= _MIN_CHARACTERS and any(map(str.isdigit, word))
    ]
    meant = tuple(order for order in own if any(order.number.casefold().endswith(n) for n in said))
    return meant or tuple(own)
