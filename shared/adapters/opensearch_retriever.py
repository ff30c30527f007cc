"""Port Retriever over OpenSearch: the same three signals as in this process, weighed alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from shared.adapters.embedding import Embedder, Vectors
from shared.adapters.opensearch_api import OpenSearchApi
from shared.adapters.passage_search import NAME_BOOST
from shared.contracts.knowledge import Passage
from shared.errors import DependencyUnavailable
from shared.policy.names import said_names

LONGEST_NAME_WORDS: Final = 8
CANDIDATES: Final = 50
HALF_SCORE: Final = 6.0
"""The BM25 score that counts as half of all words shared."""
TEXT_LIMIT_CHARACTERS: Final = 1_000
"""More words than an analyser's clause limit takes; what is asked stands at the beginning."""


class _Source(msgspec.Struct):
    passage_id: str
    title: str
    text: str
    source_id: str


class _Hit(msgspec.Struct):
    score: float = msgspec.field(name="_score")
    source: _Source = msgspec.field(name="_source")


class _Hits(msgspec.Struct):
    hits: list[_Hit]


class _Answer(msgspec.Struct):
    hits: _Hits


class OpenSearchRetriever:
    """One request for each search; the question is embedded in this process, as the passages were."""

    def __init__(self, api: OpenSearchApi, index: str, embedder: Embedder) -> None:
        self._api = api
        self._index = index
        self._embedder = embedder

    async def search(self, text: str, limit: int) -> Sequence[Passage]:
        """See Retriever. Scores have the scale of PassageSearch."""
        if not text.strip() or limit < 1:
            return ()
        request = _request(text, self._embedder.embed([text])[0], limit)
        found = await self._api.call(
            "POST", f"/{self._index}/_search", msgspec.json.encode(request)
        )
        try:
            hits = msgspec.convert(found, _Answer).hits.hits
        except msgspec.ValidationError as error:
            raise DependencyUnavailable("OpenSearch answered in another form") from error
        return tuple(
            Passage(
                hit.source.passage_id,
                hit.source.title,
                hit.source.text,
                hit.score,
                hit.source.source_id,
            )
            for hit in hits
        )


def _request(text: str, vector: Vectors, limit: int) -> dict[str, Any]:
    readable = text[:TEXT_LIMIT_CHARACTERS].encode("utf-8", "replace").decode()
    signals = [
        _scored({"match": {"content": {"query": readable}}}, "_score / (_score + params.half) / 2"),
        {
            "constant_score": {
                "filter": {"terms": {"names": list(said_names(readable, LONGEST_NAME_WORDS))}},
                "boost": NAME_BOOST,
            }
        },
    ]
    if vector.any():
        # The engine tells (1 + cosine) / 2, and refuses a vector without a direction.
        nearest = {"knn": {"vector": {"vector": vector.tolist(), "k": max(limit, CANDIDATES)}}}
        signals.append(_scored(nearest, "Math.max(_score - 0.5, 0)"))
    return {
        "size": limit,
        "_source": ["passage_id", "title", "text", "source_id"],
        "query": {"bool": {"should": signals}},
    }


def _scored(query: dict[str, Any], source: str) -> dict[str, Any]:
    return {
        "script_score": {
            "query": query,
            "script": {"source": source, "params": {"half": HALF_SCORE}},
        }
    }
