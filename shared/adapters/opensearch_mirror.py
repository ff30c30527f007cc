"""The passages of an index copied to OpenSearch, and put in use in one step."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.opensearch_api import NoSuchIndex, OpenSearchApi, OpenSearchRefused
from shared.errors import DependencyUnavailable
from shared.policy.names import is_telling, plain_name

BULK_LIMIT_BYTES: Final = 4_194_304
_KEYWORD = {"type": "keyword"}


class OpenSearchMirror:
    """`alias` names what is searched; each state of the corpus has an index of its own behind it."""

    def __init__(self, api: OpenSearchApi, alias: str) -> None:
        self._api = api
        self._alias = alias

    async def replace(self, index: KnowledgeIndex) -> None:
        """Write every passage, then turn the alias; searches see the old state or the new one, never a mixture.

        Safe to repeat. Raises DependencyUnavailable and ConfigurationError, the old state staying in use.
        """
        name = f"{self._alias}-{_state(index)}"
        await self._make(name, index.vectors.shape[1])
        for body in _bulks(name, index):
            answer = await self._api.call("POST", "/_bulk", body, is_bulk=True)
            if answer.get("errors"):
                raise DependencyUnavailable("OpenSearch did not take every passage")
        await self._api.call("POST", f"/{name}/_refresh")
        await self._use(name)

    async def _make(self, name: str, dimensions: int) -> None:
        try:
            await self._api.call("PUT", f"/{name}", msgspec.json.encode(_mapping(dimensions)))
        except OpenSearchRefused:
            # It is there from a try that broke off; if it is not, writing to it says so.
            await self._api.call("GET", f"/{name}")

    async def _use(self, name: str) -> None:
        try:
            before = list(await self._api.call("GET", f"/_alias/{self._alias}"))
        except NoSuchIndex:
            before = []
        old = [each for each in before if each != name]
        actions: list[dict[str, Any]] = [{"add": {"index": name, "alias": self._alias}}]
        actions += [{"remove": {"index": each, "alias": self._alias}} for each in old]
        await self._api.call("POST", "/_aliases", msgspec.json.encode({"actions": actions}))
        for each in old:
            await self._api.call("DELETE", f"/{each}")


def _state(index: KnowledgeIndex) -> str:
    """A name for what the index says and how it is embedded."""
    said = msgspec.json.encode([index.embedding, sorted(index.fingerprints.items())])
    return hashlib.sha256(said).hexdigest()[:12]


def _mapping(dimensions: int) -> dict[str, Any]:
    vector = {
        "type": "knn_vector",
        "dimension": dimensions,
        "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
    }
    return {
        "settings": {"index": {"knn": True}},
        "mappings": {
            "dynamic": "strict",
            "properties": {
                "passage_id": _KEYWORD,
                "source_id": _KEYWORD,
                "title": {"type": "text", "index": False},
                "text": {"type": "text", "index": False},
                "content": {"type": "text"},
                "names": _KEYWORD,
                "vector": vector,
            },
        },
    }


def _bulks(name: str, index: KnowledgeIndex) -> Iterator[bytes]:
    """Bodies of at most BULK_LIMIT_BYTES, as far as single passages permit."""
    lines: list[bytes] = []
    size = 0
    for at, entry in enumerate(index.passages):
        document: dict[str, Any] = {
            "passage_id": entry.id,
            "source_id": entry.source_id,
            "title": entry.title,
            "text": entry.text,
            "content": f"{entry.title}. {' '.join(entry.names)} {entry.text}",
            "names": sorted(filter(is_telling, {plain_name(each) for each in entry.names})),
        }
        if index.vectors[at].any():
            document["vector"] = index.vectors[at].tolist()
        action = {"index": {"_index": name, "_id": entry.id}}
        line = msgspec.json.encode(action) + b"\n" + msgspec.json.encode(document) + b"\n"
        if lines and size + len(line) > BULK_LIMIT_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    yield b"".join(lines)
