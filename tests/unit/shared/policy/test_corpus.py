from __future__ import annotations

import pytest

from shared.policy import corpus as corpus_module
from shared.policy.corpus import CorpusRefused, compare, is_corpus_file, read_corpus
from tests.fakes.knowledge import series_document, small_corpus


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
        "intents/Bad Weather.txt": b"is it raining\nis it warm\nsnow\nwind\nhail\n",
        "intents/general.txt": b"one\ntwo\nthree\nfour\nfive\n",
        "intents/human.txt": b"person\nperson\nperson\nperson\nperson\n",
    }
    assert faults_of(files) == [
        ("intents/Bad Weather.txt", 0),
        ("intents/general.txt", 0),
        ("intents/human.txt", 0),
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


def test_read_corpus_takes_any_kind_and_any_intent_of_its_owner() -> None:
    files = small_corpus() | {
        "repairs/brakes.md": b"---\nid: brakes\ntitle: Brakes\nkind: repair\n---\nText",
        "intents/rent_a_bike.txt": b"rent\nborrow one\nhire a bike\nbike for a day\nlend me one\n",
    }
    del files["kinds.json"]
    corpus = read_corpus(files)
    assert {document.kind for document in corpus.documents} == {"repair", "policy", "series"}
    assert "rent_a_bike" in {example.label for example in corpus.examples}
    assert not any(passage.facts for passage in corpus.passages)


def test_read_corpus_holds_documents_to_the_rules_of_their_kinds() -> None:
    files = small_corpus() | {
        "bikes/raven.md": b"---\nid: raven\ntitle: Raven\nkind: bike\n---\nText",
        "bikes/wren.md": b"---\nid: wren\ntitle: Wren\nkind: boat\n---\nText",
        "kinds.json": b'{"bike":{"required":["gears"]},"series":{},"policy":{}}',
    }
    with pytest.raises(CorpusRefused) as caught:
        read_corpus(files)
    assert [(fault.document, fault.reason) for fault in caught.value.faults] == [
        ("bikes/raven.md", "kind `bike` needs gears"),
        ("bikes/wren.md", "`kind` must be bike or series or policy"),
    ]


def test_read_corpus_takes_a_lexicon_and_messages_to_validate_on() -> None:
    files = small_corpus() | {
        "lexicon.txt": b"how much: cuanto cuesta\n",
        "intents/validation.jsonl": b'{"text":"send it","label":"shipping"}\n\n',
    }
    corpus = read_corpus(files)
    assert [(text.text, text.label) for text in corpus.validation] == [("send it", "shipping")]
    assert corpus.lexicon


def test_read_corpus_names_what_cannot_be_validated_on() -> None:
    files = small_corpus() | {"intents/validation.jsonl": b'{"text":"x","label":"shipping"}\n{}\n'}
    assert faults_of(files) == [("intents/validation.jsonl", 2)]
    files["intents/validation.jsonl"] = b'{"text":"x","label":"nowhere"}\n'
    assert faults_of(files) == [("intents/validation.jsonl", 0)]


@pytest.mark.parametrize("rules", [b"", b"[]", b'{"a kind":{}}', b'{"bike":{"catalog":true}}'])
def test_read_corpus_names_unreadable_rules_and_blames_no_document_for_them(rules: bytes) -> None:
    assert faults_of(small_corpus() | {"kinds.json": rules}) == [("kinds.json", 0)]


def test_read_corpus_refuses_more_passages_than_an_index_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_module, "PASSAGES_LIMIT", 3)
    assert faults_of(small_corpus()) == [("corpus", 0)]


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
        ("kinds.json", True),
        ("notes.json", False),
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


def test_read_corpus_takes_blocked_phrases_and_names_those_that_are_none() -> None:
    files = small_corpus() | {"guardrails/blocked.txt": b"# a note\nsecret plan\n"}
    assert read_corpus(files).blocked == ("secret plan",)
    assert read_corpus(small_corpus()).blocked == ()
    assert is_corpus_file("guardrails/blocked.txt")
    assert not is_corpus_file("guardrails/pii.jsonl")
    files["guardrails/blocked.txt"] = b"fine words\nab\n"
    assert faults_of(files) == [("guardrails/blocked.txt", 2)]


def test_read_corpus_takes_a_lexicon_and_messages_to_validate_by() -> None:
    files = small_corpus() | {
        "lexicon.txt": b"parcel: colis\n",
        "intents/validation.jsonl": b'{"label":"shipping","text":"send it to Rome"}\n\n',
    }
    corpus = read_corpus(files)
    assert corpus.lexicon == {"parcel": ("parcel",), "colis": ("parcel",)}
    assert [text.text for text in corpus.validation] == ["send it to Rome"]
    assert len(corpus.examples) == 10


def test_read_corpus_names_the_line_of_a_lexicon_or_validation_part_that_it_cannot_read() -> None:
    files = small_corpus() | {
        "lexicon.txt": b"# words\nparcel colis\n",
        "intents/validation.jsonl": b'{"label":"shipping","text":"x"}\nnot json\n',
    }
    assert faults_of(files) == [("intents/validation.jsonl", 2), ("lexicon.txt", 2)]


def test_read_corpus_refuses_to_validate_by_an_intent_without_examples() -> None:
    files = small_corpus() | {"intents/validation.jsonl": b'{"label":"returns","text":"x"}\n'}
    assert faults_of(files) == [("intents/validation.jsonl", 0)]


def test_read_corpus_refuses_more_examples_than_can_be_learnt_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_module, "EXAMPLES_LIMIT", 9)
    assert faults_of(small_corpus()) == [("intents/", 0)]
