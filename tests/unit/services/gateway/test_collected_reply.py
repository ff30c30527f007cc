"""A whole turn from its frames."""

from __future__ import annotations

import pytest

from services.gateway.collected_reply import CollectedReply
from services.gateway.http_problem import Problem
from shared.contracts.identifiers import MessageId, SessionId, TurnId, new_turn_id
from shared.contracts.server_frames import (
    ChatAccepted,
    ChatQueued,
    ChatRejected,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
    ServerFrame,
    Timings,
    Usage,
    encode_frame,
)

SESSION, MESSAGE = SessionId("s"), MessageId("m")
TURN = new_turn_id(SESSION, 1_700_000_000_000, bytes(10))


def fed(*frames: ServerFrame) -> CollectedReply:
    reply = CollectedReply(SESSION, MESSAGE)
    reply.take([encode_frame(frame) for frame in frames])
    return reply


def accepted() -> ChatAccepted:
    return ChatAccepted(message_id=MESSAGE, turn_id=TURN, path="inline", duplicate=False)


def started(attempt: int = 1) -> ResponseStarted:
    return ResponseStarted(
        turn_id=TURN, attempt=attempt, seq=0, path="inline", intent="general", model="m"
    )


def delta(text: str, seq: int = 1, attempt: int = 1) -> ResponseDelta:
    return ResponseDelta(turn_id=TURN, attempt=attempt, seq=seq, delta=text)


def completed(seq: int, attempt: int = 1) -> ResponseCompleted:
    return ResponseCompleted(
        turn_id=TURN,
        attempt=attempt,
        seq=seq,
        stop_reason="end_turn",
        length=1,
        sha256="",
        usage=Usage(),
        timings=Timings(queued_ms=1, first_token_ms=2, total_ms=30),
    )


def problem_of(reply: CollectedReply) -> Problem:
    with pytest.raises(Problem) as raised:
        reply.turn()
    return raised.value


def test_nothing_is_known_before_the_message_is_a_turn_and_no_end_before_it_ends() -> None:
    assert fed().turn_id is None
    reply = fed(accepted(), ChatQueued(turn_id=TURN, wait_ms=5), started(), delta("a"))
    assert reply.turn_id == TURN
    assert reply.turn() is None


def test_a_completed_turn_has_its_text_and_the_times_of_its_id() -> None:
    turn = fed(accepted(), started(), delta("a"), delta("b", 2), completed(3)).turn()
    assert turn is not None
    assert (turn.status, turn.text, turn.attempt) == ("completed", "ab", 1)
    assert (turn.accepted_at_ms, turn.completed_at_ms) == (1_700_000_000_000, 1_700_000_000_030)


def test_text_of_an_attempt_that_was_taken_over_is_gone() -> None:
    reply = fed(accepted(), started(), delta("lost"), started(2), delta("kept", 1, 2))
    reply.take([encode_frame(completed(2, 2))])
    turn = reply.turn()
    assert turn is not None
    assert (turn.text, turn.attempt) == ("kept", 2)


@pytest.mark.parametrize(
    ("code", "status", "retry_after_ms"),
    [
        ("overloaded", 503, 1_000),
        ("rate_limited", 429, 1_000),
        ("session_limited", 429, 1_000),
        ("busy", 409, None),
        ("message_too_large", 413, None),
        ("unavailable", 503, 1_000),
        ("of_a_newer_gateway", 503, 1_000),
    ],
)
def test_a_refusal_is_a_problem_that_repeats_the_message_id(
    code: str, status: int, retry_after_ms: int | None
) -> None:
    with pytest.raises(Problem) as raised:
        fed(ChatRejected(message_id=MESSAGE, code=code, message="No."))
    fault = raised.value.fault
    assert (raised.value.status, fault.code, fault.message_id) == (status, code, MESSAGE)
    assert (fault.retry_after_ms or None) == retry_after_ms


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (
            ResponseFailed(
                turn_id=TURN,
                attempt=1,
                seq=1,
                code="model_rate_limited",
                message="Later.",
                retryable=True,
                partial=False,
                retry_after_ms=7_000,
            ),
            503,
            "model_rate_limited",
        ),
        (
            ResponseCancelled(turn_id=TURN, attempt=0, seq=0, by="user", length=0, sha256=""),
            409,
            "cancelled",
        ),
        (ResponseExpired(turn_id=TURN, attempt=0, seq=0, age_ms=46_000), 503, "expired"),
    ],
)
def test_every_other_end_is_a_problem_that_names_the_turn(
    end: ServerFrame, status: int, code: str
) -> None:
    problem = problem_of(fed(accepted(), end))
    assert (problem.status, problem.fault.code) == (status, code)
    assert problem.fault.turn_id == TurnId(TURN)
    if code == "model_rate_limited":
        assert problem.response().headers["retry-after"] == "7"
