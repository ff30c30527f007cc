"""What a text looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.likeness import INVISIBLE, likeness


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain, 12", "plain, 12"),
        ("４１１１　＠ＡＢ．ｊｐ", "4111 @AB.jp"),
        ("٤١ ४१", "41 41"),
        ("a\u00a0b\u2009c", "a b c"),
        ("1\u20111\u20131\u22121", "1-1-1-1"),
        ("4\u200b1\u00ad1", f"4{INVISIBLE}1{INVISIBLE}1"),
        ("Ärger ﬁ ½ 漫画", "Ärger ﬁ ½ 漫画"),
    ],
)
def test_a_text_becomes_what_it_looks_like(text: str, plain: str) -> None:
    assert likeness(text) == plain


@given(st.text())
def test_the_likeness_is_as_long_as_the_text(text: str) -> None:
    assert len(likeness(text)) == len(text)
    assert likeness(likeness(text)) == likeness(text)
