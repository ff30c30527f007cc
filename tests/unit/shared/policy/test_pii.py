"""Personal data gives way to the name of its kind."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.pii import MASKS, find_pii, mask_pii, mask_values

LABELLED = Path(__file__).parents[4] / "knowledge/guardrails"
PIECES = (
    "4111 1111 1111 1111", "DE89370400440532013000", "ana@example.com", "+49 30 1234567", "a@b.co",
    "order", "0171 1234567", " ", "4", "1", "@", ".", "Ａ", "\u200b", "call", "DE", "\n",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=60)


@pytest.mark.parametrize("name", ["pii.jsonl", "pii_held_out.jsonl"])
def test_labelled_messages_are_masked_where_a_person_said_so(name: str) -> None:
    lines = (LABELLED / name).read_text(encoding="utf-8").splitlines()
    wrong = 0
    for line in map(json.loads, lines):
        found = [(kind, line["text"][slice(*span)]) for kind, span in find_pii(line["text"])]
        wrong += Counter(found) != Counter((kind, what) for kind, what in line["pii"])

    assert len(lines) >= 100
    assert wrong <= len(lines) // 50


@given(texts)
def test_masking_never_lengthens_a_text(text: str) -> None:
    masked = mask_pii(text)

    assert len(masked.text.encode()) <= len(text.encode())
    assert bool(masked.kinds) == (masked.text != text)


@given(texts)
def test_what_is_found_is_in_order_and_apart(text: str) -> None:
    ends = 0
    for kind, (start, end) in find_pii(text):
        assert ends <= start < end <= len(text)
        assert end - start >= len(MASKS[kind])
        ends = end


def test_everything_in_a_message_is_masked_by_kind() -> None:
    masked = mask_pii(
        "Card 4111-1111-1111-1111, refund to DE89 3704 0044 0532 0130 00, mail ana@example.com, call +49 30 1234567!"
    )

    assert masked.text == "Card [card], refund to [iban], mail [mail], call [phone]!"
    assert masked.kinds == ("card", "iban", "email", "phone")


def test_strings_of_any_depth_are_masked_in_metadata_and_nothing_else() -> None:
    value = {"page": "/cart", "note": ["4111111111111111", 7, None, {"mail": "ana@example.com"}]}

    assert mask_values(value) == {"page": "/cart", "note": ["[card]", 7, None, {"mail": "[mail]"}]}
