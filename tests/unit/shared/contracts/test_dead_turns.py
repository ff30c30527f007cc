"""What a dead turn's letter and trail say about it."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from shared.contracts.dead_turns import DeadTurn, Step
from tests.fakes.deaths import letter, request

LETTER = letter(request())
DEAD = DeadTurn(
    id="t", queue="burst", origin="letter", letter=LETTER, verdict="inspect", reason="bug"
)


def step(kind: Literal["redriven", "discarded"], life_ms: int) -> Step:
    return Step(kind=kind, by="ann", at_ms=life_ms + 1, life_ms=life_ms)


def with_trail(*trail: Step) -> DeadTurn:
    return msgspec.structs.replace(DEAD, trail=trail)


def test_a_death_is_open_until_somebody_acts_on_it() -> None:
    assert DEAD.state == "open"
    assert with_trail(step("redriven", DEAD.life_ms)).state == "redriven"
    assert with_trail(step("discarded", DEAD.life_ms)).state == "discarded"


def test_the_last_step_counts() -> None:
    trail = step("redriven", DEAD.life_ms), step("discarded", DEAD.life_ms)
    assert with_trail(*trail).state == "discarded"


def test_steps_of_an_earlier_death_leave_a_later_one_open_but_count_as_redrives() -> None:
    turn = with_trail(step("redriven", DEAD.life_ms - 1), step("redriven", DEAD.life_ms - 2))
    assert (turn.state, turn.redrives) == ("open", 2)


def test_a_message_without_a_turn_never_lived() -> None:
    lost = msgspec.structs.replace(
        DEAD, letter=msgspec.structs.replace(LETTER, turn=None, attempts=())
    )
    assert (lost.life_ms, lost.last_attempt) == (0, 0)


@pytest.mark.parametrize(("hint", "last"), [(0, 0), (3, 3)])
def test_the_hint_of_the_message_is_the_last_attempt_where_no_attempt_is_known(
    hint: int, last: int
) -> None:
    assert LETTER.turn is not None
    sent = msgspec.structs.replace(LETTER.turn, attempt_hint=hint)
    dead = msgspec.structs.replace(LETTER, turn=sent, attempts=())
    assert msgspec.structs.replace(DEAD, letter=dead).last_attempt == last
