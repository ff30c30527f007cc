"""What every Retriever does, in memory and for real."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.index_builder import build_index
from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.opensearch_api import OpenSearchApi
from shared.adapters.opensearch_mirror import OpenSearchMirror
from shared.adapters.opensearch_retriever import OpenSearchRetriever
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.clock import SystemClock
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.ports import Retriever
from tests.fakes.http_server import raw_server
from tests.fakes.knowledge import FakeRetriever, small_corpus
from tests.fakes.opensearch import CREDENTIAL, FakeOpenSearch

EMBEDDER = WordLlamaEmbedder()


Make = Callable[[bool], Retriever]


@asynccontextmanager
async def fake() -> AsyncIterator[Make]:
    def make(is_down: bool) -> Retriever:
        retriever = FakeRetriever(read_corpus(small_corpus()).passages)
        retriever.is_down = is_down
        return retriever

    yield make


@asynccontextmanager
async def in_process() -> AsyncIterator[Make]:
    index = build_index(read_corpus(small_corpus()), {}, EMBEDDER)

    def make(is_down: bool) -> Retriever:
        def current() -> KnowledgeIndex:
            if is_down:
                raise DependencyUnavailable("no knowledge index is loaded")
            return index

        return IndexRetriever(current, EMBEDDER)

    yield make


@asynccontextmanager
async def opensearch() -> AsyncIterator[Make]:
    domain = FakeOpenSearch(SystemClock().now_ms())
    index = build_index(read_corpus(small_corpus()), {}, EMBEDDER)
    http = HttpSession()
    async with raw_server(domain.handle) as server:
        api = OpenSearchApi(
            server.url,
            http=http,
            credentials=AwsCredentials("us-east-1", fixed=CREDENTIAL),
            clock=SystemClock(),
            timeout_ms=2_000,
        )
        await OpenSearchMirror(api, "passages").replace(index)

        def make(is_down: bool) -> Retriever:
            domain.status = 503 if is_down else 0
            return OpenSearchRetriever(api, "passages", EMBEDDER)

        yield make
        await http.close()


@pytest.fixture(params=[fake, in_process, opensearch], ids=lambda adapter: adapter.__name__)
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    async with request.param() as found:
        yield found


async def test_search_gives_the_nearest_passage_first(make: Make) -> None:
    found = await make(False).search("a singer and whales", 3)
    assert found[0].source_id == "sea-song"
    assert found[0].id == "sea-song#1"
    assert found[0].title == "Sea Song"
    assert "whales" in found[0].text
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (4, 4), (99, 4)])
async def test_search_gives_at_most_the_limit(make: Make, limit: int, count: int) -> None:
    found = await make(False).search("what does a parcel cost", limit)
    assert len(found) == count
    assert len({passage.id for passage in found}) == count


@pytest.mark.parametrize("text", ["", " \n\t"])
async def test_search_of_a_blank_text_finds_nothing(make: Make, text: str) -> None:
    assert len(await make(False).search(text, 5)) == 0


@pytest.mark.parametrize("text", ["🐋" * 500, "鯨の歌", "\ud800", "word " * 4_000, "%s {0} \\x00"])
async def test_search_survives_any_text(make: Make, text: str) -> None:
    assert len(await make(False).search(text, 2)) <= 2


async def test_search_that_cannot_ask_says_so(make: Make) -> None:
    with pytest.raises(DependencyUnavailable):
        await make(True).search("whales", 5)
