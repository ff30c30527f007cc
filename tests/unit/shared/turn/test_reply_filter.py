"""What of a reply may be shown, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.contracts.model import Prompt, PromptMessage
from shared.errors import GuardrailBlocked
from shared.policy.blocked_phrases import PhraseBook
from shared.turn.reply_filter import ReplyFilter, known_accounts

BOOK = PhraseBook(("secret plan", "<passages>", "41 is", "1111 door"))
CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"
PIECES = (
    CARD, IBAN, "4111111111111111", "GB29NWBK60161331926819", "secret plan", "secret", "plan",
    " ", "  ", "4", "12", "DE89", "DE", "漫", "a", "-", ".", "４", "\u200b", "\n", "<pass", "ages>",
    "1111", "44444444444444444444", "no 41", " is", "9", "x" * 90,
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=80)


def make_filter(known: frozenset[str] = frozenset()) -> ReplyFilter:
    return ReplyFilter(BOOK, lambda: known)


def run(pieces: Sequence[str], known: frozenset[str] = frozenset()) -> list[str]:
    """What is released piece by piece, and at the end."""
    reply = make_filter(known)
    return [*(reply.feed(piece) for piece in pieces), reply.finish()]


def outcome(pieces: Sequence[str]) -> str | None:
    """All that is shown, None when the reply is blocked."""
    try:
        return "".join(run(pieces))
    except GuardrailBlocked:
        return None


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place for place in places if place < len(text)} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(texts, st.lists(st.integers(0, 150), max_size=20))
@example("a" + CARD + " " + IBAN + "." + CARD, [3, 9, 30, 31, 45])
@settings(max_examples=300)
def test_what_is_shown_does_not_depend_on_how_the_model_cut_it(
    text: str, places: list[int]
) -> None:
    whole = outcome([text])

    assert outcome(cut(text, places)) == whole
    assert outcome(list(text)) == whole


@given(st.text(st.characters(exclude_categories=["Nd", "Cs"]), min_size=1, max_size=60))
def test_text_without_digits_is_released_at_once_and_whole(text: str) -> None:
    text = "x" + text.replace("s", "z").replace("<", "(").replace("S", "Z").replace("ſ", "z")
    text = "".join(character for character in text if character.isascii() or character.isalpha())
    reply = ReplyFilter(PhraseBook(("secret plan",)), frozenset)

    assert [reply.feed(character) for character in text] == list(text)
    assert reply.finish() == ""


@pytest.mark.parametrize(
    ("pieces", "released"),
    [
        (["Hello", " there"], ["Hello", " there", ""]),
        (["Volume ", "12", " is", " out"], ["Volume ", "12", " is", " out", ""]),
        (["It has ", "42", " volumes"], ["It has ", "", "42 volumes", ""]),
        (["It has 42"], ["It has ", "42"]),
        (["pay ", "4111 1111", " 1111 11", "11 now"], ["pay ", "", "", "[card] now", ""]),
        (["to DE", "89 3704 0044", " 0532 0130 00", "."], ["to DE", "", "", "[iban].", ""]),
        (["to DE89", " Naruto"], ["to DE", "89 Naruto", ""]),
        (["a se", "cret", " door"], ["a ", "", "secret door", ""]),
        (["a secret plan"], None),
        (["a secret plans"], ["a secret plans", ""]),
        (["no 41 ", "was"], ["no ", "41 was", ""]),
        (["\n", " ", "Hi"], ["", "", "\n Hi", ""]),
        ([" 4", "2 "], ["", "", " 42 "]),
        (["4" * 20, "4"], ["4" * 20, "4", ""]),
        (["no 1 4", "111 1111 1111 1111!"], ["no 1 ", "[card]!", ""]),
        ([f"pay {CARD} do", "g"], ["pay ", "[card] dog", ""]),
    ],
)
def test_only_what_is_still_ambiguous_is_held_back(
    pieces: list[str], released: list[str] | None
) -> None:
    if released is None:
        with pytest.raises(GuardrailBlocked):
            run(pieces)
    else:
        assert run(pieces) == released


def test_a_phrase_is_blocked_before_any_of_it_is_shown() -> None:
    reply = make_filter()
    shown = [reply.feed("Our secret"), reply.feed(" pl")]
    with pytest.raises(GuardrailBlocked):
        reply.feed("an, listen")

    assert shown == ["Our ", ""]


def test_accounts_that_the_prompt_holds_may_be_shown() -> None:
    prompt = Prompt(
        model="m",
        system=f"Transfers go to {IBAN}.",
        messages=(
            PromptMessage("user", "Hi"),
            PromptMessage("user", [{"type": "text", "text": f"card {CARD}"}, {"type": "image"}]),
        ),
        max_tokens=1,
    )
    known = known_accounts(prompt)

    assert known == {"DE89370400440532013000", "4111111111111111"}
    text = f"Use {IBAN} or 4111-1111-1111-1111, not GB29NWBK60161331926819."
    assert "".join(run([text], known)) == text.replace("29NWBK60161331926819", "[iban]")


def test_a_long_reply_leaves_nothing_behind_in_memory() -> None:
    reply = make_filter()
    for _ in range(500):
        reply.feed("Volume 7 is out. ")

    assert len(reply._text) < 400
