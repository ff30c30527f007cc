from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.intent import JudgedGuess, calibration_error, choose_floor

GUESSES = st.lists(st.builds(JudgedGuess, st.floats(0, 1), st.booleans()), max_size=30)


def test_choose_floor_parts_wrong_from_right_guesses() -> None:
    guesses = [JudgedGuess(0.2, False), JudgedGuess(0.4, False), JudgedGuess(0.8, True)]
    assert choose_floor(guesses) == pytest.approx(0.6)


def test_choose_floor_keeps_everything_when_all_are_right_or_none_is_known() -> None:
    assert choose_floor([JudgedGuess(0.3, True)]) == 0
    assert choose_floor([]) == 0


@given(GUESSES)
def test_choose_floor_is_never_worse_than_no_floor(guesses: list[JudgedGuess]) -> None:
    def gain(floor: float) -> int:
        kept = [guess for guess in guesses if guess.confidence >= floor]
        return sum(1 if guess.is_right else -1 for guess in kept)

    floor = choose_floor(guesses)
    assert 0 <= floor <= 1
    assert gain(floor) >= gain(0)


def test_calibration_error_is_the_distance_of_confidence_from_being_right() -> None:
    sure = [JudgedGuess(0.95, True), JudgedGuess(0.95, False)]
    assert calibration_error(sure) == pytest.approx(0.45)
    assert calibration_error([JudgedGuess(1.0, True), JudgedGuess(0.0, False)]) == 0
    assert calibration_error([]) == 0
