from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.knowledge import Document, KindRule
from shared.errors import MalformedDocument
from shared.policy.documents import (
    DOCUMENT_LIMIT_CHARACTERS,
    PASSAGE_LIMIT_CHARACTERS,
    cut_passages,
    parse_document,
)
from tests.fakes.knowledge import series_document

RULES = {"series": KindRule(catalogue=True, required=("author", "genres")), "policy": KindRule()}
POLICY = "---\nid: returns\ntitle: Returns\nkind: policy\n---\n\n"


def test_parse_document_reads_values_lists_and_body() -> None:
    document = parse_document("series/sea-song.md", series_document().decode())
    assert (document.id, document.title, document.kind) == ("sea-song", "Sea Song", "series")
    assert document.facts["themes"] == ("ocean", "music")
    assert document.facts["volumes"] == ("3",)
    assert document.body == "A singer who lost her voice listens to whales."


def test_parse_document_takes_quotes_comments_blank_lines_and_a_byte_order_mark() -> None:
    text = (
        "\ufeff---\n# kept by hand\nid: a\n\ntitle: \"A: the beginning\"\nkind: 'policy'\n---\nText"
    )
    document = parse_document("a.md", text)
    assert (document.title, document.kind) == ("A: the beginning", "policy")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "does not begin with front matter"),
        ("# Returns\n", 1, "does not begin with front matter"),
        ("---\nid: a\n", 2, "not closed"),
        ("---\nid: a\nno colon here\n---\nText", 3, "not `key: value`"),
        ("---\nid: a\nid: b\n---\nText", 3, "given twice"),
        ("---\nid: a\ntitle: [A\nkind: policy\n---\nText", 3, "one bracket"),
        ("---\nid: a\ntitle: A\nkind: poem\n---\nText", 4, "must be series or policy"),
        ("---\nid: a\ntitle: A\nkind: A Poem\n---\nText", 4, "`kind` may be one word"),
        ("---\nid: a\nkind: policy\n---\nText", 4, "`title` is missing"),
        ("---\nid: a\ntitle: [A, B]\nkind: policy\n---\nText", 3, "must have one value"),
        ("---\nid: Two Words\ntitle: A\nkind: policy\n---\nText", 2, "`id` may hold"),
        ("---\nid: a\ntitle: A\nkind: policy\n---\n \n", 5, "no text"),
        ("---\nid: a\ntitle: A\nkind: series\nyear: 1\n---\nText", 6, "needs author, genres"),
        (POLICY + "a" * DOCUMENT_LIMIT_CHARACTERS, 0, "longer than"),
    ],
)
def test_parse_document_names_the_document_and_the_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(MalformedDocument, match=r"policies/x\.md") as caught:
        parse_document("policies/x.md", text, RULES)
    assert caught.value.document == "policies/x.md"
    assert caught.value.line == line
    assert reason in caught.value.reason


def test_parse_document_takes_any_kind_where_no_rules_are_given() -> None:
    assert parse_document("a.md", "---\nid: a\ntitle: A\nkind: poem\n---\nText").kind == "poem"


def test_cut_passages_cuts_a_policy_at_its_headings() -> None:
    body = "Before.\n\n## Window\n\nThirty days.\n\n## Empty\n\n## Cost\n\nNothing."
    passages = cut_passages(parse_document("p.md", POLICY + body))
    assert [passage.text for passage in passages] == [
        "Before.",
        "Window: Thirty days.",
        "Cost: Nothing.",
    ]
    assert [passage.id for passage in passages] == ["returns#1", "returns#2", "returns#3"]


def test_cut_passages_gives_every_passage_of_a_series_its_facts() -> None:
    body = " ".join(f"Sentence number {number} about whales." for number in range(60))
    passages = cut_passages(parse_document("s.md", series_document(body=body).decode()), RULES)
    assert len(passages) > 1
    assert all(passage.text.startswith("Sea Song by Mina Ito.") for passage in passages)
    assert all("Volumes: 3." in passage.text for passage in passages)
    assert passages[0].names == ("Sea Song", "umi no uta", "Mina Ito")


def test_cut_passages_needs_no_author_for_a_thing_on_offer() -> None:
    text = "---\nid: raven\ntitle: Raven\nkind: bike\ngears: 21\n---\nA black bicycle."
    (passage,) = cut_passages(parse_document("b.md", text), {"bike": KindRule(catalogue=True)})
    assert passage.text == "Raven. Gears: 21.\nA black bicycle."
    assert passage.facts == {"gears": ("21",)}


def test_cut_passages_cuts_a_sentence_only_when_it_is_too_long_alone() -> None:
    short, endless = "A whale sings.", "a" * (PASSAGE_LIMIT_CHARACTERS + 10)
    first, *pieces = cut_passages(parse_document("p.md", f"{POLICY}{short} {endless}"))
    assert first.text == short
    assert "".join(piece.text for piece in pieces) == endless
    assert all(len(piece.text) <= PASSAGE_LIMIT_CHARACTERS for piece in pieces)


def test_cut_passages_does_not_cut_behind_an_abbreviation() -> None:
    lead, last = "a" * (PASSAGE_LIMIT_CHARACTERS - 14) + ".", "Hunted, Dr. Tenma flees."
    pieces = cut_passages(parse_document("p.md", f"{POLICY}{lead} {last}"))
    assert [piece.text for piece in pieces] == [lead, last]


@given(st.text(min_size=1, max_size=4_000), st.text(max_size=1_500))
def test_cut_passages_never_exceeds_the_limit(body: str, title: str) -> None:
    facts = {"author": ("A",), "aliases": (title,)}
    for kind in ("series", "policy"):
        document = Document(id="a", title=title, kind=kind, facts=facts, body=body)
        assert all(len(p.text) <= PASSAGE_LIMIT_CHARACTERS for p in cut_passages(document, RULES))


@given(st.lists(st.sampled_from(["whale", "song.", "a" * 300, "sea!"]), min_size=1, max_size=60))
def test_cut_passages_loses_no_text(words: list[str]) -> None:
    document = Document(id="a", title="A", kind="policy", facts={}, body=" ".join(words))
    joined = "".join(passage.text for passage in cut_passages(document))
    assert joined.replace(" ", "") == "".join(words)
