"""What every Retriever does, in memory and for real."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.adapters.index_builder import build_index
from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.ports import Retriever
from tests.fakes.knowledge import FakeRetriever, small_corpus

EMBEDDER = WordLlamaEmbedder()


def fake(is_down: bool) -> Retriever:
    retriever = FakeRetriever(read_corpus(small_corpus()).passages)
    retriever.is_down = is_down
    return retriever


def vector(is_down: bool) -> Retriever:
    index = build_index(read_corpus(small_corpus()), {}, EMBEDDER)

    def current():
        if is_down:
            raise DependencyUnavailable("no knowledge index is loaded")
        return index

    return IndexRetriever(current, EMBEDDER)


@pytest.fixture(params=[fake, vector], ids=["fake", "vector"])
def make(request: pytest.FixtureRequest) -> Callable[[bool], Retriever]:
    return request.param


async def test_search_gives_the_nearest_passage_first(make: Callable[[bool], Retriever]) -> None:
    found = await make(False).search("a singer and whales", 3)
    assert found[0].source_id == "sea-song"
    assert found[0].id == "sea-song#1"
    assert found[0].title == "Sea Song"
    assert "whales" in found[0].text
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (4, 4), (99, 4)])
async def test_search_gives_at_most_the_limit(
    make: Callable[[bool], Retriever], limit: int, count: int
) -> None:
    found = await make(False).search("what does a parcel cost", limit)
    assert len(found) == count
    assert len({passage.id for passage in found}) == count


@pytest.mark.parametrize("text", ["", " \n\t"])
async def test_search_of_a_blank_text_finds_nothing(
    make: Callable[[bool], Retriever], text: str
) -> None:
    assert len(await make(False).search(text, 5)) == 0


@pytest.mark.parametrize("text", ["🐋" * 500, "鯨の歌", "\ud800", "word " * 4_000, "%s {0} \\x00"])
async def test_search_survives_any_text(make: Callable[[bool], Retriever], text: str) -> None:
    assert len(await make(False).search(text, 2)) <= 2


async def test_search_that_cannot_ask_says_so(make: Callable[[bool], Retriever]) -> None:
    with pytest.raises(DependencyUnavailable):
        await make(True).search("whales", 5)
