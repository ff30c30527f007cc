"""Each scenario's table says what held and what did not."""

from __future__ import annotations

from clients.reducer import Turn
from loadtest.observed_turn import REPEATED, ObservedTurn
from loadtest.scenarios.later import LaterTurn
from loadtest.scenarios.report import broken_promises, inversions, report
from loadtest.scenarios.runs import Outcome


def ended(path: str = "inline", **fields: object) -> ObservedTurn:
    """A completed turn."""
    turn = ObservedTurn(message_id="m", sent_at_ms=0, path=path, **fields)  # type: ignore[arg-type]
    turn.state = Turn(status="completed")
    turn._terminals = 1
    return turn


def shed(at_ms: int, hint_ms: int | None = 1_000) -> ObservedTurn:
    """A refused message."""
    return ObservedTurn(
        message_id="m", sent_at_ms=at_ms, rejected="overloaded", retry_after_ms=hint_ms, total_ms=0
    )


def test_a_run_in_which_all_ended_and_all_refusals_had_hints_held() -> None:
    outcome = Outcome()
    outcome.seen.turns = [ended(started_ms=100, first_token_ms=300), ended("burst"), shed(5_000)]
    outcome.later.turns = [LaterTurn("low", "t", 0, ended_ms=4_000, status="completed")]
    assert broken_promises(outcome) == []
    text = report("tenfold", outcome)
    assert "accepted   3, ended 3" in text
    assert "refused    1 × high overloaded" in text
    assert "verdict    held" in text


def test_what_is_lost_or_unanswered_breaks_a_promise() -> None:
    outcome = Outcome()
    outcome.seen.turns = [ObservedTurn(message_id="m", sent_at_ms=0), shed(0, None)]
    outcome.later.turns = [LaterTurn("low", "t", 9_000)]
    assert broken_promises(outcome) == [
        "2 accepted turns did not end",
        "1 refusals came without a hint",
        "1 faults, see above",
    ]


def test_an_interactive_shed_in_the_second_of_a_low_turn_is_an_inversion() -> None:
    outcome = Outcome()
    outcome.seen.turns = [shed(5_200), shed(7_000)]
    outcome.later.turns = [LaterTurn("low", "t", 5_900, 6_000), LaterTurn("normal", "n", 7_000, 1)]
    assert inversions(outcome) == 1


def test_a_repeated_frame_breaks_nothing() -> None:
    outcome = Outcome()
    outcome.seen.turns = [ended(faults=[REPEATED])]
    assert broken_promises(outcome) == []


def test_predictions_are_judged_by_their_median() -> None:
    outcome = Outcome()
    outcome.seen.turns = [
        ended("burst", started_ms=3_000, predictions=[(1_000, predicted_ms)])
        for predicted_ms in (2_000, 2_500, 9_000)
    ]
    assert "3 waits, half of them within 25 %: too few to judge, 100 are needed" in report(
        "x", outcome
    )
