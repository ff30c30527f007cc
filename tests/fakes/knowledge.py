"""In-memory twins of the knowledge ports, and a small corpus to build real ones from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from shared.adapters.embedding import Vectors
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.index_builder import build_index
from shared.contracts.identifiers import TenantId, UserId
from shared.contracts.knowledge import (
    GENERAL_INTENT,
    Intent,
    Passage,
    PassageEntry,
    SimilarTitle,
)
from shared.contracts.orders import Order
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.policy.names import plain_name
from shared.turn.fan_out import SourcePorts


class FakeRetriever:
    """Ranks passages by the words that they share with the question."""

    def __init__(self, entries: Sequence[PassageEntry] = ()) -> None:
        self.entries = tuple(entries)
        self.is_down = False
        self.searches: list[tuple[str, int]] = []

    async def search(self, text: str, limit: int) -> Sequence[Passage]:
        self.searches.append((text, limit))
        if self.is_down:
            raise DependencyUnavailable("the fake retriever is down")
        asked = set(_words(text))
        if not asked:
            return ()
        scored = [
            Passage(
                id=entry.id,
                title=entry.title,
                text=entry.text,
                score=len(asked & set(_words(f"{entry.title} {entry.text}"))) / len(asked),
                source_id=entry.source_id,
            )
            for entry in self.entries
        ]
        return tuple(sorted(scored, key=lambda passage: -passage.score)[: max(limit, 0)])


class FakeCatalogue:
    """Knows the entries with facts by their title alone."""

    def __init__(self, entries: Sequence[PassageEntry] = ()) -> None:
        self.entries = tuple(entries)
        self.is_down = False

    async def named(self, text: str, limit: int) -> Sequence[Passage]:
        if self.is_down:
            raise DependencyUnavailable("the fake catalogue is down")
        places = [(text.casefold().find(entry.title.casefold()), entry) for entry in self._titles()]
        named = sorted((found for found in places if found[0] >= 0), key=lambda found: found[0])
        return tuple(_passage(entry) for _, entry in named[:limit])

    async def traits(self, text: str) -> Sequence[str]:
        if self.is_down:
            raise DependencyUnavailable("the fake catalogue is down")
        known = {trait for entry in self._titles() for trait in entry.facts.get("themes", ())}
        return sorted(known.intersection(plain_name(text).split()))

    def _titles(self) -> list[PassageEntry]:
        return [entry for entry in self.entries if entry.facts]


class FakeRecommender(FakeCatalogue):
    """Suggests the entries that share a theme with one that is named, or have one that is said."""

    async def similar(self, text: str, limit: int) -> Sequence[SimilarTitle]:
        named = [passage.title for passage in await self.named(text, 99)]
        wanted = {
            theme
            for entry in self._titles()
            for theme in entry.facts.get("themes", ())
            if entry.title in named or theme in text
        }
        return tuple(
            SimilarTitle(passage=_passage(entry), shares=shared, like=tuple(named))
            for entry in self._titles()
            for shared in (tuple(t for t in entry.facts.get("themes", ()) if t in wanted),)
            if shared and entry.title not in named
        )[:limit]


class FakeOrders:
    """Orders by their owner."""

    def __init__(self) -> None:
        self.by_owner: dict[tuple[str, str], tuple[Order, ...]] = {}
        self.is_down = False

    async def of_user(self, tenant: TenantId, user: UserId, limit: int) -> Sequence[Order]:
        if self.is_down:
            raise DependencyUnavailable("the fake orders are down")
        return self.by_owner.get((tenant, user), ())[:limit]


def fake_sources(retriever: FakeRetriever | None = None) -> SourcePorts:
    """Sources that know nothing but what the retriever does."""
    return SourcePorts(
        retriever=retriever or FakeRetriever(),
        catalogue=FakeCatalogue(),
        recommender=FakeRecommender(),
        orders=FakeOrders(),
    )


class FakeIntentClassifier:
    """Knows an intent by any of its words."""

    def __init__(self, labels_by_word: Mapping[str, str]) -> None:
        self.labels_by_word = dict(labels_by_word)
        self.is_down = False

    async def classify(self, text: str) -> Intent:
        if self.is_down:
            raise DependencyUnavailable("the fake classifier is down")
        for word in _words(text):
            if word in self.labels_by_word:
                return Intent(self.labels_by_word[word], 0.9)
        return Intent(GENERAL_INTENT, 0.0)


class FakeEmbedder:
    """One direction per word, by its hash: texts are near when they share words."""

    def __init__(self, dimensions: int = 64, name: str = "fake-64") -> None:
        self.dimensions = dimensions
        self.name = name

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _words(text):
                digest = hashlib.sha256(word.encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self.dimensions] += 1
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def series_document(
    document_id: str = "sea-song", *, title: str = "Sea Song", volumes: str = "3", body: str = ""
) -> bytes:
    """A series as a file; body empty = a sentence about whales."""
    return (
        f"---\nid: {document_id}\ntitle: {title}\nkind: series\nauthor: Mina Ito\n"
        "demographic: josei\ngenres: [drama]\nthemes: [ocean, music]\n"
        f"volumes: {volumes}\nstatus: completed\naliases: [umi no uta]\n---\n\n"
        f"{body or 'A singer who lost her voice listens to whales.'}\n"
    ).encode()


def small_corpus() -> dict[str, bytes]:
    """Two series, a policy, two intents, prompt and profile: file name → content."""
    return {
        "series/sea-song.md": series_document(),
        "series/iron-kettle.md": series_document(
            "iron-kettle",
            title="Iron Kettle",
            volumes="9",
            body="Two cooks duel with soup in a mountain railway.",
        ).replace(b"aliases: [umi no uta]\n", b""),
        "policies/shipping.md": (
            b"---\nid: shipping\ntitle: Shipping\nkind: policy\n---\n\n"
            b"## Cost\n\nA parcel costs 4.90 USD.\n\n## Time\n\nIt arrives in 3 days.\n"
        ),
        "intents/shipping.txt": (
            b"what does a parcel cost\nhow long does shipping take\nship it abroad\n"
            b"delivery time\nshipping price\n"
        ),
        "intents/recommendation.txt": (
            b"recommend a series\nsuggest something to read\nwhat should i read next\n"
            b"a good manga please\nany recommendation\n"
        ),
        "kinds.json": (
            b'{"series":{"catalogue":true,"required":["author","demographic","genres"]},"policy":{}}'
        ),
        "prompt.md": b"Answer from the passages.\n",
        "assistant.json": (
            b'{"name":"Shelf","tagline":"Books","greeting":"Hello","suggestions":["a","b","c","d"]}'
        ),
    }


def small_index(files: Mapping[str, bytes] | None = None) -> KnowledgeIndex:
    """The index of `files` (the small corpus) by FakeEmbedder."""
    content = small_corpus() if files is None else files
    fingerprints = {name: hashlib.sha256(body).hexdigest() for name, body in content.items()}
    return build_index(read_corpus(content), fingerprints, FakeEmbedder())


def _passage(entry: PassageEntry) -> Passage:
    return Passage(entry.id, entry.title, entry.text, 1.0, entry.source_id)


def _words(text: str) -> list[str]:
    return "".join(mark if mark.isalnum() else " " for mark in text.casefold()).split()
