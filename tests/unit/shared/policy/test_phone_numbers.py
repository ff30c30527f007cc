"""Phone numbers between other numbers."""

from __future__ import annotations

import pytest

from shared.policy.phone_numbers import phone_spans


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("+49 (0) 171 1234567", ["+49 (0) 171 1234567"]),
        ("order +49 171 1234567", ["+49 171 1234567"]),
        ("0049 30 1234567", ["0049 30 1234567"]),
        ("06 12 34 56 78", ["06 12 34 56 78"]),
        ("(555) 123-4567", ["(555) 123-4567"]),
        ("555-123-4567 or 212.555.0100", ["555-123-4567", "212.555.0100"]),
        ("(11) 91234-5678", ["(11) 91234-5678"]),
        ("8 912 345-67-89", ["8 912 345-67-89"]),
        ("my mobile is 612345678", ["612345678"]),
        ("call 0171 1234567", ["0171 1234567"]),
        ("order 0171 1234567", []),
        ("phone for order 0171 1234567", []),
        ("order by phone 0171 1234567", ["0171 1234567"]),
        ("call me, I said it often enough by now: 612345678", []),
        ("0306406152", []),
        ("mobile 0306406152", ["0306406152"]),
        ("0306406153", ["0306406153"]),
        ("01.02.2024 12 30", []),
        ("612345678", []),
        ("+1 000 000 00", []),
    ],
)
def test_shape_or_announcement_makes_a_phone_number(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in phone_spans(text)] == found
