"""Are the right documents found for a question, and how fast?"""

from __future__ import annotations

from time import thread_time

import msgspec

from ops.evaluation.subject import Subject, percentile
from ops.evaluation.table import Measure, Table
from shared.adapters.vector_retriever import VectorRetriever

PASSAGES = 5
ROUNDS = 20


class LabelledQuery(msgspec.Struct, frozen=True):
    """A question and the documents any of which answers it."""

    text: str
    sources: tuple[str, ...]


async def measure_retrieval(subject: Subject) -> Table | None:
    """Recall on `queries.jsonl`, which is never indexed; None without that file."""
    queries = subject.labelled("queries.jsonl", LabelledQuery)
    if not queries:
        return None
    retriever = VectorRetriever(lambda: subject.index, subject.embedder)
    found = first = 0
    missed: list[str] = []
    spans_us: list[float] = []
    for query in queries:
        sources = [passage.source_id for passage in await retriever.search(query.text, PASSAGES)]
        first += bool(sources) and sources[0] in query.sources
        if any(source in query.sources for source in sources):
            found += 1
        else:
            missed.append(f"missed: {query.text}")
        for _ in range(ROUNDS):
            started = thread_time()
            await retriever.search(query.text, PASSAGES)
            spans_us.append((thread_time() - started) * 1e6)
    return Table(
        title=f"Retrieval: {len(queries)} questions, {len(subject.index.passages)} passages",
        measures=(
            Measure(name=f"recall@{PASSAGES}", value=found / len(queries), goal=0.95),
            Measure(name="recall@1", value=first / len(queries)),
            Measure(
                name="search p50, CPU time of a call",
                value=percentile(spans_us, 0.5),
                digits=0,
                unit="µs",
            ),
            Measure(
                name="search p99, CPU time of a call",
                value=percentile(spans_us, 0.99),
                digits=0,
                unit="µs",
                goal=5_000,
                at_most=True,
            ),
        ),
        notes=tuple(missed),
    )
