"""Tokens without a tokenizer: an estimate that errs on the safe side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.token_estimate import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 4), ("a", 5), ("abc", 5), ("abcd", 6), ("漫画", 6), ("🦊", 6)]
)
def test_three_bytes_are_a_token_and_every_message_costs_four_more(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text(), st.text())
def test_texts_together_cost_no_more_than_apart_and_no_less_than_each(one: str, two: str) -> None:
    together = estimate_tokens(one + two)
    assert max(estimate_tokens(one), estimate_tokens(two)) <= together
    assert together <= estimate_tokens(one) + estimate_tokens(two)
