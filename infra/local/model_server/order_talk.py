"""What the offline model says about orders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from infra.local.model_server.found_elements import Element
from infra.local.model_server.wording import listed, words

_NUMBER = re.compile(r"\b(?:[A-Z]{1,4}-?)?\d{4,12}\b", re.IGNORECASE)
_REFUND = re.compile(
    r"\b(refund|money|return|send (it|them) back|exchange|reimburse)", re.IGNORECASE
)
_REFUND_WANTED = re.compile(
    r"\b(want|get|need|like|request|claim|demand)\b.*\b(refund|money back)", re.I
)
_ALL = re.compile(r"\b(orders|all|history|everything)\b", re.IGNORECASE)
_OVER = ("delivered", "returned", "refunded", "cancelled")
_STEPS = (
    ("placed", "placed on"),
    ("shipped", "shipped on"),
    ("expected", "expected on"),
    ("delivered", "delivered on"),
)


def talk_about_orders(question: str, orders: Sequence[Element]) -> str:
    """What the user's own orders answer; a number that is not among them is said to be unknown."""
    if not orders:
        return "I see no orders of yours."
    asked = [number.upper() for number in _NUMBER.findall(question)]
    own = {order.attributes["number"].upper(): order for order in orders}
    found = [order for number, order in own.items() if any(number.endswith(each) for each in asked)]
    if asked and not found:
        return (
            f"I cannot see an order {listed(asked)} among yours. Your newest orders are "
            f"{listed([_name(order) for order in orders])}."
        )
    if not found and _ALL.search(question) and not _REFUND.search(question):
        return "Your newest orders:\n\n" + "\n".join(f"- {_told(order)}" for order in orders)
    return _told(found[0] if found else _meant(question, orders))


def _meant(question: str, orders: Sequence[Element]) -> Element:
    """The order that shares words with the question, else one to refund or return, else one under way."""
    wanted = words(question)
    named = [order for order in orders if len(wanted & words(order.body)) > 1]
    if named:
        return named[0]
    if _REFUND.search(question):
        is_awaited = "refund" in question.casefold() and not _REFUND_WANTED.search(question)
        kinds = ("refund", "return_by") if is_awaited else ("return_by", "refund")
        for kind in kinds:
            fitting = [order for order in orders if kind in order.attributes]
            if fitting:
                return fitting[0]
    open_ = [order for order in orders if order.attributes.get("status") not in _OVER]
    return open_[0] if open_ else orders[0]


def _told(order: Element) -> str:
    known = order.attributes
    steps = [f"{words_} {_day(known[key])}" for key, words_ in _STEPS if key in known]
    parts = [f"Order {_name(order)} is **{known.get('status', 'known')}**: {', '.join(steps)}."]
    lines, _, note = order.body.partition("\n")
    parts.append(f"It holds {lines.replace(' x ', ' × ')}.")
    if "tracking" in known:
        parts.append(f"Its tracking number is {known['tracking']}.")
    if "return_by" in known:
        parts.append(f"You can return it until {_day(known['return_by'])}.")
    if "refund" in known:
        parts.append(f"Refund: {_days_in(known['refund'])}.")
    if note:
        parts.append(note.strip())
    return " ".join(parts)


def _name(order: Element) -> str:
    return f"**{order.attributes['number']}**"


def _day(iso: str) -> str:
    try:
        day = date.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{day.day} {day:%B}"


def _days_in(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", lambda found: _day(found[0]), text)
