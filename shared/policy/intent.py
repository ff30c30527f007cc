"""How sure a guess about what the user wants must be to act on it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class JudgedGuess(msgspec.Struct, frozen=True):
    """A classifier's confidence on a message whose intent is known, and whether it was right."""

    confidence: float
    is_right: bool


def choose_floor(guesses: Sequence[JudgedGuess]) -> float:
    """The floor that keeps the most right guesses over wrong ones; the lowest such, 0 without guesses.

    A wrong intent leaves out sources that the answer needed, `general` only asks more of them than necessary; so a
    wrong guess kept weighs as much as a right one lost.
    """
    best_floor, best_gain = 0.0, sum(1 if guess.is_right else -1 for guess in guesses)
    gain = best_gain
    ordered = sorted(guesses, key=lambda guess: guess.confidence)
    for at, guess in enumerate(ordered):
        gain -= 1 if guess.is_right else -1
        following = ordered[at + 1].confidence if at + 1 < len(ordered) else 1.0
        if gain > best_gain and following > guess.confidence:
            best_floor, best_gain = (guess.confidence + following) / 2, gain
    return best_floor


def calibration_error(guesses: Sequence[JudgedGuess], bins: int = 10) -> float:
    """How far confidence is from the share of right guesses, averaged over bins by their size; 0 without guesses."""
    groups: dict[int, list[JudgedGuess]] = {}
    for guess in guesses:
        groups.setdefault(min(int(guess.confidence * bins), bins - 1), []).append(guess)
    apart = sum(
        abs(sum(guess.confidence - guess.is_right for guess in group)) for group in groups.values()
    )
    return apart / len(guesses) if guesses else 0.0
