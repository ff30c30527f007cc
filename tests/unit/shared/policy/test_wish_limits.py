"""What a wish rules out."""

from __future__ import annotations

import pytest

from shared.policy.wish_limits import read_limits


@pytest.mark.parametrize(
    ("text", "avoided"),
    [
        ("something with no romance", "romance"),
        ("isekai without school", "school"),
        ("like Berserk but not mature", "mature"),
        ("Horror ohne Romantik", "Romantik"),
        ("Fantasy, aber keine Schule", "Schule"),
        ("I did not like Naruto", "I did not like Naruto"),
        ("I didn't like Naruto, but horror is fine", "I didn't like Naruto"),
        ("Naruto mochte ich nicht", "Naruto mochte ich nicht"),
        ("Ich mochte Naruto nicht. Etwas mit Horror?", "Ich mochte Naruto nicht"),
        ("not only horror", ""),
        ("horror please", ""),
    ],
)
def test_what_is_not_wanted_is_told_from_what_is(text: str, avoided: str) -> None:
    assert read_limits(text).avoided == avoided


def test_the_rest_stays_wanted() -> None:
    assert read_limits("horror please").wanted == "horror please"
    assert "school" not in read_limits("isekai without school").wanted
    assert "horror" in read_limits("I didn't like Naruto, but horror is fine").wanted
    assert "Naruto" not in read_limits("I didn't like Naruto, but horror is fine").wanted


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("horror with at most 3 volumes", 3),
        ("no more than 12 books", 12),
        ("höchstens 5 Bände", 5),
        ("fewer than 5 volumes", 4),
        ("unter 8 Bänden", 7),
        ("not too long", 10),
        ("nicht zu lang", 10),
        ("volume 3 of it", None),
    ],
)
def test_how_many_volumes_are_too_many(text: str, most: int | None) -> None:
    assert read_limits(text).most_volumes == most
    assert read_limits(text).avoided == ""
