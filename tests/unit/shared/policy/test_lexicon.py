from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.knowledge import PassageEntry
from shared.errors import MalformedDocument
from shared.policy.lexicon import Lexicon, lexicon_of, parse_lexicon

TEXT = """
# shoppers' words
where: dónde, wo ist, どこ
order: pedido, bestell*, 注文
refund: money back, remboursement, 返金
discount: rebaja, sale
release: sale
would:
"""
FORMS = parse_lexicon("lexicon.txt", TEXT)
LEXICON = Lexicon(FORMS, {"blue lock": "title", "monster": "title", "sale": "title"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where is my ORDER 48213?", ["where", "is", "my", "order", "00000"]),
        ("¿Dónde está mi pedido?", ["where", "esta", "mi", "order"]),
        ("wo ist meine Bestellung", ["where", "meine", "order"]),
        ("money back!", ["refund"]),
        ("who drew Blue Lock", ["who", "drew", "title"]),
        ("", []),
    ],
)
def test_read_tells_what_words_mean_in_any_language(text: str, words: list[str]) -> None:
    assert LEXICON.read(text) == words


def test_read_finds_forms_inside_scripts_without_blanks() -> None:
    assert LEXICON.read("私の注文はどこ") == ["私の", "order", "は", "where"]
    assert LEXICON.read("注文どこ") == ["order", "where"]


@pytest.mark.parametrize(
    "word", ["remboursment", "rembuorsement", "rembboursement", "remborrsement"]
)
def test_read_forgives_one_slip(word: str) -> None:
    assert LEXICON.read(word) == ["refund"]


@pytest.mark.parametrize("word", ["rembrsement", "emboursement", "mould", "wheer"])
def test_read_forgives_neither_two_slips_nor_the_first_letter_nor_a_short_word(word: str) -> None:
    assert LEXICON.read(word) == [word]


def test_a_name_is_misread_only_when_it_is_long() -> None:
    lexicon = Lexicon({}, {"bleach": "title", "berserk": "title"})
    assert lexicon.read("beach") == ["beach"]
    assert lexicon.read("bersek") == ["title"]


def test_a_form_may_have_several_meanings_and_a_single_word_keeps_them_beside_a_name() -> None:
    assert LEXICON.read("sale") == ["discount", "release"]


def test_known_share_counts_words_that_mean_something() -> None:
    assert LEXICON.known_share(LEXICON.read("order pizza")) == 0.5
    assert LEXICON.known_share([]) == 0


@pytest.mark.parametrize(("line", "at"), [("order pedido", 1), ("\n: pedido", 2), ("!!!: a", 1)])
def test_parse_names_the_line_that_it_cannot_read(line: str, at: int) -> None:
    with pytest.raises(MalformedDocument) as caught:
        parse_lexicon("lexicon.txt", line)
    assert (caught.value.document, caught.value.line) == ("lexicon.txt", at)


def test_lexicon_of_a_corpus_knows_titles_and_traits_but_no_policies() -> None:
    entries = [
        PassageEntry(
            id="blue-lock#1",
            source_id="blue-lock",
            title="Blue Lock",
            text="",
            kind="series",
            names=("Blue Lock", "Muneyuki Kaneshiro"),
            facts={"themes": ("team sports", "war"), "author": ("x",)},
        ),
        PassageEntry(
            id="returns#1",
            source_id="returns",
            title="",
            text="",
            kind="policy",
            names=("Returns",),
        ),
    ]
    lexicon = lexicon_of({}, entries)
    assert lexicon.read("Blue Lock, team sports, war, returns") == [
        "title",
        "trait",
        "war",
        "returns",
    ]


@given(st.text(max_size=300))
def test_read_takes_any_text(text: str) -> None:
    assert all(word for word in LEXICON.read(text))
