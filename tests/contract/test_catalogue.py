"""What every Catalogue and every Recommender does, in memory and over an index."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.adapters.index_builder import build_index
from shared.adapters.index_catalogue import IndexCatalogue, IndexRecommender
from shared.errors import DependencyUnavailable
from shared.policy.corpus import read_corpus
from shared.ports import Catalogue, Recommender
from tests.fakes.knowledge import (
    FakeCatalogue,
    FakeEmbedder,
    FakeRecommender,
    series_document,
    small_corpus,
)

CORPUS = {
    **small_corpus(),
    "series/tide.md": series_document("tide", title="Tide", body="A diver meets a squid."),
    "series/stove.md": series_document("stove", title="Stove", body="A cook cooks.").replace(
        b"themes: [ocean, music]", b"themes: [cooking]"
    ),
}
Make = Callable[..., tuple[Catalogue, Recommender]]


def fakes(*, is_down: bool = False) -> tuple[Catalogue, Recommender]:
    passages = read_corpus(CORPUS).passages
    catalogue, recommender = FakeCatalogue(passages), FakeRecommender(passages)
    catalogue.is_down = recommender.is_down = is_down
    return catalogue, recommender


def over_an_index(*, is_down: bool = False) -> tuple[Catalogue, Recommender]:
    embedder = FakeEmbedder()
    index = build_index(read_corpus(CORPUS), {}, embedder)

    def current():
        if is_down:
            raise DependencyUnavailable("no knowledge index is loaded")
        return index

    return IndexCatalogue(current), IndexRecommender(current, embedder)


@pytest.fixture(params=[fakes, over_an_index], ids=["fake", "index"])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


async def test_named_titles_come_in_order_of_mention_with_their_facts(make: Make) -> None:
    catalogue, _ = make()

    found = await catalogue.named("Is Tide longer than sea song?", 5)

    assert [passage.source_id for passage in found] == ["tide", "sea-song"]
    assert [passage.id for passage in found] == ["tide#1", "sea-song#1"]
    assert "Volumes: 3." in found[0].text
    assert len(await catalogue.named("Is Tide longer than sea song?", 1)) == 1


@pytest.mark.parametrize("text", ["", "what does shipping cost", "🐋" * 300, "\ud800"])
async def test_a_text_that_names_no_title_gets_nothing(make: Make, text: str) -> None:
    catalogue, recommender = make()

    assert list(await catalogue.named(text, 5)) == []
    assert list(await recommender.similar(text, 5)) == []


async def test_similar_titles_share_themes_with_the_named_one_which_is_not_among_them(
    make: Make,
) -> None:
    _, recommender = make()

    found = await recommender.similar("something like Sea Song please", 5)

    assert found[0].passage.source_id in {"tide", "iron-kettle"}
    assert "sea-song" not in {title.passage.source_id for title in found}
    assert {"ocean", "music"} <= set(found[0].shares)
    assert all(title.like == ("Sea Song",) for title in found)
    assert len(await recommender.similar("something like Sea Song please", 1)) == 1


async def test_titles_may_be_asked_for_by_a_theme(make: Make) -> None:
    _, recommender = make()

    (found,) = await recommender.similar("a story with cooking in it", 1)

    assert found.passage.source_id == "stove"
    assert found.shares == ("cooking",)
    assert found.like == ()


async def test_a_trait_that_is_said_is_known_as_one(make: Make) -> None:
    catalogue, _ = make()

    assert list(await catalogue.traits("Cooking, with music?")) == ["cooking", "music"]
    assert list(await catalogue.traits("Is Tide longer?")) == []


async def test_what_cannot_ask_says_so(make: Make) -> None:
    catalogue, recommender = make(is_down=True)

    with pytest.raises(DependencyUnavailable):
        await catalogue.named("Tide", 5)
    with pytest.raises(DependencyUnavailable):
        await catalogue.traits("cooking")
    with pytest.raises(DependencyUnavailable):
        await recommender.similar("Tide", 5)
