"""The prompt: what never changes first, so that the provider's prompt cache hits; then history; the question last.

Everything that was found for the question stands before it as elements of a small markup, escaped, so that no text
can end its element or begin another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from shared.contracts.knowledge import Passage, SimilarTitle
from shared.contracts.model import Prompt, PromptMessage
from shared.contracts.orders import Order
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry
from shared.errors import MalformedMessage
from shared.policy.history_window import fit_history
from shared.policy.limits import AnswerPlan
from shared.policy.token_estimate import estimate_tokens
from shared.turn.findings import Findings

_ATTRIBUTE = {'"': "&quot;"}
# What a tokenizer may take for a bracket, and characters that nobody sees but a model may read as hidden letters.
_DISGUISES = str.maketrans(
    {"\uff1c": "&lt;", "\ufe64": "&lt;", "\uff1e": "&gt;", "\ufe65": "&gt;"}
    | {chr(code): "" for code in range(0xE0000, 0xE0080)}
)


@dataclass(frozen=True)
class _Element:
    """One thing that was found, as text, and the document or order that it cites."""

    text: str
    source: SourceLink


@dataclass(frozen=True)
class _Group:
    """Elements of a kind, in the order of their worth."""

    name: str
    elements: Sequence[_Element]
    is_told_when_empty: bool = False


@dataclass(frozen=True)
class Composed:
    """The prompt, and the sources of what is in it, each once, in the prompt's order."""

    prompt: Prompt
    sources: tuple[SourceLink, ...]


def compose_prompt(
    *,
    system: str,
    history: Sequence[HistoryEntry],
    findings: Findings,
    question: str,
    plan: AnswerPlan,
    max_tokens: int,
) -> Composed:
    """A request that the Messages API accepts: roles alternate, begin and end with the user, no blank text.

    The user's words are the last block, unchanged. Neither a clock nor an id of this turn is in it. Findings and then
    the newest turns of `history` are in it as far as `max_tokens` (by estimate_tokens) allow beside rules and question.
    Raises MalformedMessage for a blank question, which the gateway refuses at the door.
    """
    if not question.strip():
        raise MalformedMessage("the user's message is blank", b"")
    room = max_tokens - estimate_tokens(system) - estimate_tokens(question)
    data, sources, cost = _data_text(findings, room)
    window = fit_history(
        history,
        max_turns=plan.history_turns,
        max_tokens=min(plan.history_tokens, max(0, room - cost)),
    )
    messages: list[PromptMessage] = []
    for turn in window:
        messages.append(PromptMessage("user", turn.user_text))
        messages.append(PromptMessage("assistant", turn.assistant_text))
    blocks = [_text_block(data)] if data else []
    messages.append(PromptMessage("user", [*blocks, _text_block(question)]))
    prompt = Prompt(
        model=plan.model,
        system=system,
        messages=tuple(messages),
        max_tokens=plan.max_tokens,
        # A window that had to drop turns begins elsewhere with the next turn: nothing of it would be read again.
        stable_messages=len(messages) - 1 if len(window) == len(history) else 0,
    )
    return Composed(prompt, sources)


def _data_text(findings: Findings, room: int) -> tuple[str, tuple[SourceLink, ...], int]:
    """The elements that fit into `room` tokens, whole ones only, their sources, and what they cost."""
    texts: list[str] = []
    sources: dict[str, SourceLink] = {}
    cost = 0
    for group in _groups(findings):
        kept: list[str] = []
        for element in group.elements:
            cost_of_element = estimate_tokens(element.text)
            if cost + cost_of_element > room:
                break
            cost += cost_of_element
            kept.append(element.text)
            sources.setdefault(element.source.id, element.source)
        if kept or group.is_told_when_empty:
            texts.append("\n".join((f"<{group.name}>", *kept, f"</{group.name}>")))
            cost += estimate_tokens(f"<{group.name}></{group.name}>")
    return "\n".join(texts), tuple(sources.values()), cost


def _groups(findings: Findings) -> Iterable[_Group]:
    yield _Group("orders", [_order(order) for order in findings.orders], findings.has_orders)
    yield _Group("similar_titles", [_similar(title) for title in findings.similar])
    yield _Group("passages", [_passage(passage) for passage in findings.passages])


def _passage(passage: Passage) -> _Element:
    return _Element(
        _element("passage", passage.text, id=passage.id, title=passage.title), _link(passage)
    )


def _similar(title: SimilarTitle) -> _Element:
    passage = title.passage
    attributes = {"id": passage.id, "title": passage.title, "shares": ", ".join(title.shares)}
    if title.like:
        attributes["like"] = " and ".join(title.like)
    return _Element(_element("similar_title", passage.text, **attributes), _link(passage))


def _order(order: Order) -> _Element:
    days = {
        "placed": order.placed_on,
        "shipped": order.shipped_on,
        "expected": order.expected_on,
        "delivered": order.delivered_on,
        "return_by": order.return_by,
        "tracking": order.tracking,
        "total": order.total,
        "refund": order.refund,
    }
    known = {name: value for name, value in days.items() if value}
    lines = [
        " ".join(
            part
            for part in (f"{line.quantity} x {line.title}", line.price and f"({line.price})")
            if part
        )
        for line in order.lines
    ]
    text = "\n".join(part for part in ("; ".join(lines), order.note) if part)
    return _Element(
        _element("order", text, number=order.number, status=order.status, **known),
        SourceLink(title=f"Your order {order.number}", id=f"order:{order.number}"),
    )


def _link(passage: Passage) -> SourceLink:
    return SourceLink(title=passage.title, id=passage.source_id)


def _element(name: str, text: str, **attributes: str) -> str:
    told = "".join(f' {key}="{escape(value, _ATTRIBUTE)}"' for key, value in attributes.items())
    return f"<{name}{told}>{escape(text)}</{name}>".translate(_DISGUISES)


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
