from __future__ import annotations

from pathlib import Path

import pytest

from shared.contracts.knowledge import INTENT_LABELS
from shared.policy.corpus import CorpusRefused, compare, is_corpus_file, read_corpus
from tests.fakes.knowledge import series_document, small_corpus

KNOWLEDGE = Path(__file__).parents[4] / "knowledge"


def faults_of(files: dict[str, bytes]) -> list[tuple[str, int]]:
    with pytest.raises(CorpusRefused) as caught:
        read_corpus(files)
    return [(fault.document, fault.line) for fault in caught.value.faults]


def test_read_corpus_gathers_documents_examples_prompt_and_profile() -> None:
    corpus = read_corpus(small_corpus() | {"queries.jsonl": b"not json", "README.md": b"notes"})
    assert [document.id for document in corpus.documents] == ["shipping", "iron-kettle", "sea-song"]
    assert len(corpus.passages) == 4
    assert len(corpus.examples) == 10
    assert corpus.prompt == "Answer from the passages."
    assert corpus.assistant.name == "Shelf"


def test_read_corpus_names_every_fault_at_once() -> None:
    files = small_corpus() | {
        "series/broken.md": b"---\nid: broken\noops\n---\nText",
        "series/not-text.md": b"---\nid: x\n\xff\n---\nText",
        "intents/weather.txt": b"is it raining\n" * 9,
        "intents/human.txt": b"person\nperson\nperson\nperson\nperson\n",
    }
    assert faults_of(files) == [
        ("intents/human.txt", 0),
        ("intents/weather.txt", 0),
        ("series/broken.md", 3),
        ("series/not-text.md", 3),
    ]


def test_read_corpus_refuses_an_id_that_is_taken() -> None:
    with pytest.raises(CorpusRefused, match=r"taken by series/sea-song\.md"):
        read_corpus(small_corpus() | {"series/zzz.md": series_document()})


def test_read_corpus_refuses_an_empty_corpus() -> None:
    files = {name: body for name, body in small_corpus().items() if "/" not in name}
    assert faults_of(files) == [("corpus", 0), ("intents/", 0)]
    assert faults_of({}) == [
        ("corpus", 0),
        ("prompt.md", 0),
        ("assistant.json", 0),
        ("intents/", 0),
    ]


@pytest.mark.parametrize("name", ["prompt.md", "assistant.json"])
def test_read_corpus_needs_prompt_and_profile(name: str) -> None:
    files = small_corpus()
    files[name] = b""
    assert faults_of(files) == [(name, 0)]
    del files[name]
    assert faults_of(files) == [(name, 0)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("series/naruto.md", True),
        ("prompt.md", True),
        ("assistant.json", True),
        ("intents/human.txt", True),
        ("intents/held_out.jsonl", False),
        ("queries.jsonl", False),
        ("README.md", False),
    ],
)
def test_is_corpus_file_leaves_notes_and_measuring_alone(name: str, expected: bool) -> None:
    assert is_corpus_file(name) is expected


def test_compare_tells_added_changed_and_removed() -> None:
    change = compare({"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"})
    assert (change.added, change.changed, change.removed) == (("d",), ("b",), ("a",))
    assert not change.is_empty
    assert compare({"a": "1"}, {"a": "1"}).is_empty


def test_the_example_store_can_be_read_and_is_large_enough() -> None:
    files = {
        path.relative_to(KNOWLEDGE).as_posix(): path.read_bytes()
        for path in KNOWLEDGE.rglob("*")
        if path.is_file()
    }
    corpus = read_corpus(files)
    assert sum(document.kind == "series" for document in corpus.documents) >= 32
    assert len(corpus.documents) >= 40
    for label in INTENT_LABELS:
        assert sum(example.label == label for example in corpus.examples) >= 25
    assert len(corpus.assistant.suggestions) == 4
    ids = {document.id for document in corpus.documents}
    assert all(Path(name).stem in ids for name in files if "/" in name and name.endswith(".md"))
