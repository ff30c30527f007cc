"""The example store's own documents: complete, of one vocabulary, and rich enough to recommend from."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from shared.contracts.knowledge import Document
from shared.policy.corpus import Corpus, read_corpus
from shared.policy.names import plain_name

KNOWLEDGE = Path(__file__).parents[3] / "knowledge"
STATUSES = {"completed", "ongoing", "hiatus"}
DEMOGRAPHICS = {"shonen", "shojo", "seinen", "josei", "kodomo"}
AGES = {"all ages", "teen", "older teen", "mature"}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus(
        {
            path.relative_to(KNOWLEDGE).as_posix(): path.read_bytes()
            for path in KNOWLEDGE.rglob("*")
            if path.is_file()
        }
    )


@pytest.fixture(scope="module")
def series(corpus: Corpus) -> list[Document]:
    return [document for document in corpus.documents if document.kind == "series"]


def test_the_store_has_series_policies_and_answers_to_frequent_questions(corpus: Corpus) -> None:
    kinds = Counter(document.kind for document in corpus.documents)
    assert kinds["series"] >= 300
    assert kinds["policy"] >= 14
    assert kinds["faq"] >= 20
    assert len(corpus.assistant.suggestions) == 4


def test_every_document_lies_in_a_file_of_its_own_id(corpus: Corpus) -> None:
    stems = {path.stem for path in KNOWLEDGE.glob("*/*.md")}
    assert stems == {document.id for document in corpus.documents}


def test_every_fact_of_a_series_is_of_its_kind(series: list[Document]) -> None:
    for document in series:
        facts = {key: values[0] for key, values in document.facts.items()}
        assert facts["demographic"] in DEMOGRAPHICS, document.id
        assert facts["status"] in STATUSES, document.id
        assert facts["age"] in AGES, document.id
        assert re.fullmatch(r"\d{1,3}\+?", facts["volumes"]), document.id
        assert 1900 < int(facts["year"]) < 2027, document.id


def test_a_count_that_may_have_grown_says_when_it_was_taken(series: list[Document]) -> None:
    for document in series:
        is_growing = document.facts["volumes"][0].endswith("+")
        assert is_growing == ("volumes_as_of" in document.facts), document.id
        assert is_growing or document.facts["status"][0] != "ongoing", document.id


def test_every_series_is_described_in_two_sentences_or_more(series: list[Document]) -> None:
    for document in series:
        assert len(re.findall(r"[.!?](?:\s|$)", document.body)) >= 2, document.id


def test_every_theme_is_of_the_vocabulary_and_tells_series_apart(series: list[Document]) -> None:
    readme = (KNOWLEDGE / "README.md").read_text()
    vocabulary = set(
        re.findall(r"`([^`]+)`", readme.partition("## Themes")[2].partition("\n## ")[0])
    )
    counts = Counter(theme for document in series for theme in document.facts["themes"])
    assert set(counts) == vocabulary
    assert max(counts.values()) <= 0.15 * len(series)
    assert min(counts.values()) >= 3
    assert all(2 <= len(set(document.facts["themes"])) <= 5 for document in series)


def test_every_series_shares_two_themes_with_three_others(series: list[Document]) -> None:
    themes = {document.id: set(document.facts["themes"]) for document in series}
    for own, wanted in themes.items():
        close = [other for other in themes if other != own and len(themes[other] & wanted) >= 2]
        assert len(close) >= 3, own


def test_every_series_has_keywords_of_its_own_and_none_is_its_name(series: list[Document]) -> None:
    for document in series:
        keywords = document.facts["keywords"]
        names = {plain_name(name) for name in (document.title, *document.facts.get("aliases", ()))}
        traits = {*document.facts["themes"], *document.facts["genres"]}
        assert 5 <= len(set(keywords)) == len(keywords) <= 12, document.id
        assert not names & {plain_name(keyword) for keyword in keywords}, document.id
        assert not traits & set(keywords), document.id


def test_no_keyword_is_cut_off_in_a_passage(corpus: Corpus) -> None:
    wanted = {
        document.id: f"Keywords: {', '.join(document.facts['keywords'])}."
        for document in corpus.documents
        if document.kind == "series"
    }
    passages = [passage for passage in corpus.passages if passage.source_id in wanted]
    assert {passage.source_id for passage in passages} == set(wanted)
    assert all(wanted[passage.source_id] in passage.text for passage in passages)


def test_no_two_documents_go_by_the_same_name(corpus: Corpus) -> None:
    owners: dict[str, set[str]] = {}
    for document in corpus.documents:
        for name in (document.title, *document.facts.get("aliases", ())):
            owners.setdefault(plain_name(name), set()).add(document.id)
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}
