"""What makes two failures the same failure."""

from __future__ import annotations

from shared.policy.fingerprint import fingerprint


def test_a_moved_line_keeps_the_fingerprint() -> None:
    one = fingerprint("KeyError", "KeyError: a.py:12:run > b.py:7:look")

    assert one == fingerprint("KeyError", "KeyError: a.py:99:run > b.py:8:look")
    assert len(one) == 16


def test_another_place_or_type_is_another_failure() -> None:
    one = fingerprint("KeyError", "a.py:12:run")

    assert one != fingerprint("KeyError", "a.py:12:walk")
    assert one != fingerprint("ValueError", "a.py:12:run")
