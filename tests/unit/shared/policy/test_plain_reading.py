"""What a message in another language is searched for."""

from __future__ import annotations

import pytest

from shared.policy.lexicon import Lexicon
from shared.policy.plain_reading import search_reading

LEXICON = Lexicon(
    {"versand": ("shipping",), "kostet": ("how much",), "ship": ("shipping",)}, {"akira": "title"}
)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Was kostet der Versand?", "was how much der shipping"),
        ("Was kostet Akira?", "Was kostet Akira?"),
        ("do you ship abroad?", "do you ship abroad?"),
    ],
)
def test_only_a_foreign_question_about_no_title_is_read(text: str, reading: str) -> None:
    assert search_reading(text, LEXICON) == reading
