"""Are the right documents found for a question, and how fast?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import thread_time

import msgspec

from ops.evaluation.subject import Subject, percentile
from ops.evaluation.table import Measure, Table
from shared.adapters.index_catalogue import IndexRecommender
from shared.adapters.index_retriever import IndexRetriever

PASSAGES = 5
ROUNDS = 20
SHARED_THEMES = 2
"""So many make a title worth suggesting to who liked another."""


class LabelledQuery(msgspec.Struct, frozen=True):
    """A question and the documents any of which answers it; or the title that the question wants others `like`."""

    text: str
    sources: tuple[str, ...] = ()
    like: str = ""


async def measure_retrieval(subject: Subject) -> Table | None:
    """Recall and rank on `queries_held_out.jsonl`, by which nothing was tuned; None without labelled queries.

    `queries.jsonl`, by which the weights were chosen, stands beside it for comparison.
    """
    tuned = subject.labelled("queries.jsonl", LabelledQuery)
    held_out = subject.labelled("queries_held_out.jsonl", LabelledQuery)
    if not (held_out or tuned):
        return None
    questions = Questions(subject)
    ranks = await questions.ranks(held_out or tuned)
    spans_us = await questions.spans_us([query.text for query in held_out or tuned])
    measures = [
        Measure(name=f"recall@{PASSAGES}", value=_recall(ranks.values()), goal=0.95),
        Measure(name="mean reciprocal rank", value=_reciprocal(ranks.values()), goal=0.85),
        Measure(name="recall@1", value=_recall(ranks.values(), at=1)),
    ]
    if held_out and tuned:
        other = (await questions.ranks(tuned)).values()
        measures += [
            Measure(name=f"recall@{PASSAGES} on those tuned by", value=_recall(other)),
            Measure(name="mean reciprocal rank on those", value=_reciprocal(other)),
        ]
    measures += [
        Measure(name="search p50, CPU", value=percentile(spans_us, 0.5), digits=0, unit="µs"),
        Measure(
            name="search p99, CPU",
            value=percentile(spans_us, 0.99),
            digits=0,
            unit="µs",
            goal=5_000,
            at_most=True,
        ),
    ]
    return Table(
        title=f"Retrieval: {len(ranks)} questions, {len(subject.index.passages)} passages",
        measures=tuple(measures),
        notes=tuple(f"missed: {text}" for text, rank in ranks.items() if not rank),
    )


class Questions:
    """Asks whom a turn would ask: the recommender for titles like another, else the retriever."""

    def __init__(self, subject: Subject) -> None:
        self._retriever = IndexRetriever(lambda: subject.index, subject.embedder)
        self._recommender = IndexRecommender(lambda: subject.index, subject.embedder)
        self._themes = {
            entry.source_id: frozenset(entry.facts.get("themes", ()))
            for entry in subject.index.passages
            if entry.facts
        }

    async def ranks(self, queries: Sequence[LabelledQuery]) -> Mapping[str, int]:
        """By question the place of the first right answer among the best, from 1; 0 = none of them is right."""
        return {query.text: await self._rank(query) for query in queries}

    async def _rank(self, query: LabelledQuery) -> int:
        if query.like:
            similar = await self._recommender.similar(query.text, PASSAGES)
            found = [title.passage.source_id for title in similar]
            # To suggest the very title that somebody has read spoils the whole list.
            right = [self._is_like(query.like, each) for each in found if query.like not in found]
        else:
            found = [each.source_id for each in await self._retriever.search(query.text, PASSAGES)]
            right = [each in query.sources for each in found]
        return right.index(True) + 1 if True in right else 0

    def _is_like(self, one: str, other: str) -> bool:
        return len(self._themes[one] & self._themes[other]) >= SHARED_THEMES

    async def spans_us(self, texts: Sequence[str]) -> list[float]:
        """CPU time of every search; a call never waits."""
        spans: list[float] = []
        for text in list(texts) * ROUNDS:
            started = thread_time()
            await self._retriever.search(text, PASSAGES)
            spans.append((thread_time() - started) * 1e6)
        return spans


def _recall(ranks: Iterable[int], at: int = PASSAGES) -> float:
    found = [0 < rank <= at for rank in ranks]
    return sum(found) / len(found)


def _reciprocal(ranks: Iterable[int]) -> float:
    values = [1 / rank if rank else 0.0 for rank in ranks]
    return sum(values) / len(values)
