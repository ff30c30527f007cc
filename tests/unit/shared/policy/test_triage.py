from typing import Any, get_args

import pytest

from shared.contracts.dead_letters import DeadLetterClass, DeadLetterError
from shared.contracts.dead_turns import DeadTurnBrief
from shared.contracts.ledger import TurnState
from shared.policy.triage import (
    Assessment,
    StillAlive,
    assess_letter,
    assess_moved,
    group_dead_turns,
    is_abandoned,
    is_growing,
    is_redriven_with_others,
)
from tests.fakes.dead_turns import brief_of
from tests.fakes.deaths import NOW_MS, death, letter, request

DAY_MS = 86_400_000


def error(name: str) -> DeadLetterError:
    return DeadLetterError(type=name, message="", stack="")


def state(status: str, attempt: int = 0, **changes: Any) -> TurnState:
    return TurnState(
        request=request(),
        status=status,  # type: ignore[arg-type]
        placed="burst",
        attempt=attempt,
        last_seq=-1,
        lease_until_ms=changes.pop("lease_until_ms", 0),
        outcome=None if status in ("waiting", "running") else b"{}",
        **changes,
    )


def brief(number: int = 1, **changes: Any) -> DeadTurnBrief:
    return brief_of(death(number, **changes))


@pytest.mark.parametrize(
    ("klass", "error_type", "verdict", "reason"),
    [
        ("never_ran", "TurnUnclaimed", "redrive", "unclaimed"),
        ("failed", "ZeroDivisionError", "inspect", "bug"),
        ("failed", "ModelRejected", "inspect", "refused_by_model"),
        ("failed", "DependencyUnavailable", "redrive", "outage"),
        ("failed", "TurnUnclaimed", "redrive", "outage"),
        ("not_stored", "ItemTooLarge", "inspect", "shown_not_stored"),
        ("malformed", "MalformedMessage", "inspect", "undecodable"),
        ("poison", "WorkerLost", "inspect", "crashed"),
    ],
)
@pytest.mark.case("B-29")
def test_a_letter_keeps_its_class_and_gets_a_verdict(
    klass: DeadLetterClass, error_type: str, verdict: str, reason: str
) -> None:
    dead = letter(request(), klass=klass, error=error(error_type))
    assert assess_letter(dead, is_answered=False) == Assessment(klass, verdict, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("klass", get_args(DeadLetterClass))
def test_whatever_was_answered_meanwhile_is_discarded(klass: DeadLetterClass) -> None:
    dead = letter(request(), klass=klass)
    assert assess_letter(dead, is_answered=True) == Assessment(klass, "discard", "answered")


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (state("failed"), Assessment("never_ran", "redrive", "unclaimed")),
        (state("failed", 2), Assessment("failed", "inspect", "failed")),
        (state("expired"), Assessment("never_ran", "discard", "ended")),
        (state("cancelled", 1), Assessment("failed", "discard", "ended")),
        (state("rejected"), Assessment("never_ran", "discard", "ended")),
        (state("waiting"), StillAlive()),
        (state("running", 1), StillAlive()),
        (None, Assessment("never_ran", "inspect", "unknown")),
    ],
)
@pytest.mark.case("B-29")
def test_a_moved_message_is_judged_by_the_turn_as_it_is(
    turn: TurnState | None, expected: object
) -> None:
    answer = assess_moved(request(), turn, is_answered=False, now_ms=NOW_MS + 10)
    assert answer == expected


@pytest.mark.parametrize("turn", [state("completed", 1), None])
def test_a_moved_message_whose_turn_was_answered_is_discarded(turn: TurnState | None) -> None:
    answer = assess_moved(request(attempt_hint=1), turn, is_answered=True, now_ms=NOW_MS)
    assert answer == Assessment("failed", "discard", "answered")


def test_an_answer_that_is_yet_to_be_delivered_keeps_the_turn_alive() -> None:
    answer = assess_moved(request(), state("running", 2), is_answered=True, now_ms=NOW_MS)
    assert answer == StillAlive()


@pytest.mark.case("B-29")
def test_a_forgotten_interactive_turn_of_yesterday_is_too_old_to_matter() -> None:
    answer = assess_moved(request(), None, is_answered=False, now_ms=NOW_MS + 2 * DAY_MS)
    assert answer == Assessment("never_ran", "discard", "too_old")


def test_a_forgotten_detached_turn_is_looked_at_whatever_its_age() -> None:
    turn = request(detached=True, priority="low", attempt_hint=1)
    answer = assess_moved(turn, None, is_answered=False, now_ms=NOW_MS + 2 * DAY_MS)
    assert answer == Assessment("failed", "inspect", "unknown")


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (state("waiting"), True),
        (state("waiting", 3), True),
        (state("waiting", position=1), False),
        (state("running", 1, lease_until_ms=NOW_MS + 1), False),
        (state("running", 1, lease_until_ms=NOW_MS - 1), False),
        (state("failed", 1), False),
    ],
)
def test_only_what_waits_for_nobody_but_the_queue_is_abandoned(
    turn: TurnState, expected: bool
) -> None:
    assert is_abandoned(turn, NOW_MS) is expected


def test_ten_deaths_of_one_kind_are_growth() -> None:
    assert not is_growing(9)
    assert is_growing(10)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"verdict": "redrive"}, True),
        ({"verdict": "discard"}, False),
        ({"letter_klass": "poison"}, False),
        ({"letter_klass": "not_stored"}, False),
        ({"letter_klass": "malformed"}, False),
    ],
)
def test_a_redrive_of_many_leaves_out_what_must_be_named(changes: dict, expected: bool) -> None:
    assert is_redriven_with_others(brief(**changes)) is expected


def test_groups_are_counted_and_the_latest_comes_first() -> None:
    other = "fedcba9876543210"
    turns = [
        brief(1, letter_dead_at_ms=NOW_MS + 10),
        brief(2, letter_dead_at_ms=NOW_MS + 30),
        brief(3, letter_dead_at_ms=NOW_MS + 20, letter_fingerprint=other, verdict="redrive"),
    ]

    first, second = group_dead_turns(turns)

    assert (first.count, first.open, first.verdict) == (2, 2, "inspect")
    assert (first.first_dead_at_ms, first.last_dead_at_ms) == (NOW_MS + 10, NOW_MS + 30)
    assert (second.fingerprint, second.verdict) == (other, "redrive")


def test_a_group_whose_open_turns_differ_is_looked_at() -> None:
    turns = [brief(1, verdict="redrive"), brief(2, verdict="discard")]
    assert group_dead_turns(turns)[0].verdict == "inspect"
