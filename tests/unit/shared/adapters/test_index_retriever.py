from __future__ import annotations

from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.passage_search import NAME_BOOST
from tests.fakes.knowledge import FakeEmbedder, small_index

INDEX = small_index()
RETRIEVER = IndexRetriever(lambda: INDEX, FakeEmbedder())


async def test_search_puts_a_named_document_first_whatever_else_is_said() -> None:
    found = await RETRIEVER.search("Does a parcel with IRON-KETTLE cost and arrive in 3 days", 5)
    assert found[0].source_id == "iron-kettle"
    assert found[0].score > NAME_BOOST


async def test_search_knows_other_names_and_authors() -> None:
    assert (await RETRIEVER.search("umi no uta", 1))[0].source_id == "sea-song"
    by_author = await RETRIEVER.search("anything by Mina Ito?", 2)
    assert {passage.source_id for passage in by_author} == {"sea-song", "iron-kettle"}


async def test_search_does_not_take_a_part_of_a_word_for_a_name() -> None:
    found = await RETRIEVER.search("seasonal songs", 4)
    assert all(passage.score < NAME_BOOST for passage in found)


async def test_search_knows_a_name_in_spite_of_a_slip() -> None:
    for text in ("irn kettle", "ironkettel", "iron kettlee"):
        assert (await RETRIEVER.search(text, 1))[0].source_id == "iron-kettle"


async def test_search_takes_an_exact_name_before_one_that_is_near() -> None:
    exact = (await RETRIEVER.search("Iron Kettle", 1))[0]
    near = (await RETRIEVER.search("Iron Ketle", 1))[0]
    assert exact.source_id == near.source_id == "iron-kettle"
    assert exact.score > near.score


async def test_search_leaves_the_index_as_it_was() -> None:
    before = INDEX.vectors.copy()
    await RETRIEVER.search("Sea Song", 5)
    assert (INDEX.vectors == before).all()
