"""Addresses between other words."""

from __future__ import annotations

import pytest

from shared.policy.mail_addresses import mail_spans


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("write to ana@example.com.", ["ana@example.com"]),
        ("<o'neil+x@mail.example.ie>", ["o'neil+x@mail.example.ie"]),
        ("メールはtaro@example.jpです", ["taro@example.jp"]),
        ("анна@почта.рф", ["анна@почта.рф"]),
        ("ana (at) example [dot] com", ["ana (at) example [dot] com"]),
        ("a@b.co,c@d.io", ["a@b.co", "c@d.io"]),
        ("a@b.co@d.io", ["a@b.co"]),
        ("logo@2x.png", []),
        ("@example.com", []),
        ("user@localhost", []),
        ("3 @ 9.99", []),
    ],
)
def test_addresses_are_found(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in mail_spans(text)] == found
