"""A judge that finds nothing proves nothing: each fault that it exists for is planted once."""

from __future__ import annotations

from shared.contracts.server_frames import (
    ChatAccepted,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponseStarted,
    Timings,
    Usage,
)
from tests.chaos.witness import Witness

TURN = "s.01"


def started(attempt=1):
    return ResponseStarted(
        turn_id=TURN, attempt=attempt, seq=0, path="inline", intent="general", model="m"
    )


def delta(seq, text, attempt=1):
    return ResponseDelta(turn_id=TURN, attempt=attempt, seq=seq, delta=text)


def completed(seq, attempt=1):
    return ResponseCompleted(
        turn_id=TURN,
        attempt=attempt,
        seq=seq,
        stop_reason="end_turn",
        length=0,
        sha256="",
        usage=Usage(),
        timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
    )


def failed(seq, attempt=1):
    return ResponseFailed(
        turn_id=TURN,
        attempt=attempt,
        seq=seq,
        code="internal",
        message="",
        retryable=True,
        partial=True,
    )


def accepted(turn_id):
    return ChatAccepted(message_id="m", turn_id=turn_id, path="inline", duplicate=False)


def judge(*frames):
    witness = Witness()
    for frame in frames:
        witness.see(frame, 0)
    return witness


def test_takeover_with_repeats_and_late_frames_is_lawful():
    witness = judge(
        accepted(TURN),
        started(),
        delta(1, "a"),
        started(2),
        delta(2, "b"),
        delta(1, "a", 2),
        delta(1, "a", 2),
        completed(2, 2),
        completed(2, 2),
        accepted(TURN),
    )
    assert witness.violations == []
    assert (witness.repeats, witness.late) == (2, 1)
    assert witness.text(TURN, 2) == "a"
    assert witness.end_kinds() == {"completed": 1}


def test_two_frames_of_one_place_are_told():
    assert "two frames at (1, 1)" in judge(delta(1, "a"), delta(1, "b")).violations[0]


def test_two_ends_are_told():
    assert "ended 2 times" in judge(completed(1), failed(1, 2)).violations[0]


def test_frames_of_an_attempt_behind_the_end_are_told():
    assert "went on after its end" in judge(completed(1), started(2)).violations[0]


def test_two_turns_of_one_message_are_told():
    assert "became two turns" in judge(accepted(TURN), accepted("s.02")).violations[0]
