"""Which sources of knowledge an intent asks for, and which of their findings fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, Literal

from shared.contracts.knowledge import GENERAL_INTENT, Intent, Passage, SimilarTitle

Source = Literal["retrieval", "catalogue", "recommendations", "orders"]
SUGGESTION_INTENT: Final = "recommendation"
TITLE_SOURCES: frozenset[Source] = frozenset({"catalogue", "recommendations"})
"""They find what is named; so a question that says "it" must name it first."""
FIT_SHARE = 0.4
"""A passage of less than this share of the best one's score only mentions the subject in passing."""

NAMED_FIT_SHARE = 0.8
PASSAGES_BESIDE_OTHERS = 3
"""The user's own orders, or suggestions, answer most; few pages beside them are enough."""

RETRIEVED_FOR_EACH = 2
"""So many are retrieved for each passage wanted, as a document that is named fills the best places alone."""
_PASSAGES_OF_A_DOCUMENT = 2

_CHEAP: tuple[Source, ...] = ("catalogue", "retrieval")
_SOURCES: MappingProxyType[str, tuple[Source, ...]] = MappingProxyType(
    {
        SUGGESTION_INTENT: ("recommendations", "retrieval"),
        "product_question": _CHEAP,
        "order_status": ("orders", "retrieval"),
        "returns": ("orders", "retrieval"),
        # Who names a title means it, even when the classifier takes the rest for idle talk.
        "out_of_scope": ("catalogue",),
        "chit_chat": (),
        GENERAL_INTENT: _CHEAP,
    }
)
_OTHERS: tuple[Source, ...] = ("retrieval",)


def settle_intent(intent: Intent, floor: float) -> Intent:
    """The intent to act on: `general` when the confidence is below `floor`."""
    return intent if intent.confidence >= floor else Intent(GENERAL_INTENT, intent.confidence)


def sources_for(label: str, *, leans: bool = False) -> tuple[Source, ...]:
    """The sources to ask for an intent; retrieval for a label that the table does not know.

    A wish for suggestions that `leans` on titles named before may as well be a question about these.
    """
    sources = _SOURCES.get(label, _OTHERS)
    if leans and "recommendations" in sources:
        return (*sources, "catalogue")
    return sources


def fitting(
    passages: Iterable[Passage], floor: float, *, is_named: bool = False
) -> tuple[Passage, ...]:
    """The passages near enough to the question to be worth their tokens, in their order.

    `is_named`: the question names what it is about, so others have to be almost as near.
    """
    found = tuple(passages)
    best = max((passage.score for passage in found), default=0.0)
    least = max(floor, best * (NAMED_FIT_SHARE if is_named else FIT_SHARE))
    return tuple(passage for passage in found if passage.score >= least)


def merged(
    facts: Iterable[Passage],
    retrieved: Iterable[Passage],
    similar: Iterable[SimilarTitle],
    limit: int,
) -> tuple[Passage, ...]:
    """At most `limit` passages, each once, facts first; more than two of a document only when there is room left.

    What is suggested already is left out of what was retrieved, and so are the titles that it is like.
    """
    suggested = list(similar)
    taken = {title.passage.source_id for title in suggested}
    likened = {liked for title in suggested for liked in title.like}
    kept = {passage.id: passage for passage in facts}
    for passage in retrieved:
        if passage.source_id not in taken and passage.title not in likened:
            kept.setdefault(passage.id, passage)
    seen: Counter[str] = Counter()
    first: list[Passage] = []
    further: list[Passage] = []
    for passage in kept.values():
        seen[passage.source_id] += 1
        (first if seen[passage.source_id] <= _PASSAGES_OF_A_DOCUMENT else further).append(passage)
    return (*first, *further)[:limit]
