"""Terminal frames without an answer, and their place where nobody holds the turn."""

from __future__ import annotations

import hashlib

import pytest

from shared.contracts.identifiers import MessageId, TurnId
from shared.contracts.ledger import TurnState
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseExpired,
    ResponseFailed,
    encode_frame,
)
from shared.contracts.turns import TurnRequest
from shared.policy.failed_ends import FailedEnd, failed_end
from shared.turn.terminal_frames import (
    cancelled_frame,
    expired_frame,
    failed_frame,
    failed_unclaimed_frame,
    place_of_end,
)
from tests.fakes.turn_world import SESSION

TURN = TurnId("s1.01J00000000000000000000000")


def state(*, attempt: int, last_seq: int) -> TurnState:
    request = TurnRequest(
        turn_id=TURN,
        session_id=SESSION.session_id,
        message_id=MessageId("m1"),
        tenant=SESSION.tenant,
        user=SESSION.user,
        text="Hi",
        accepted_at_ms=1,
    )
    return TurnState(
        request=request,
        status="running" if attempt else "waiting",
        placed="inline",
        attempt=attempt,
        last_seq=last_seq,
        lease_until_ms=0,
    )


@pytest.mark.parametrize(
    ("attempt", "last_seq", "place"), [(0, -1, (0, 0)), (1, -1, (1, 0)), (2, 7, (2, 8))]
)
def test_an_end_without_a_live_owner_follows_what_the_last_attempt_logged(
    attempt: int, last_seq: int, place: tuple[int, int]
) -> None:
    assert place_of_end(state(attempt=attempt, last_seq=last_seq)) == place


@pytest.mark.parametrize(("seq", "is_partial"), [(0, False), (1, False), (2, True)])
def test_an_unclaimed_failure_is_partial_once_text_was_logged_behind_started(
    seq: int, is_partial: bool
) -> None:
    frame = failed_unclaimed_frame(TURN, failed_end("internal"))(1, seq)

    assert isinstance(frame, ResponseFailed)
    assert (frame.attempt, frame.seq, frame.code, frame.partial) == (1, seq, "internal", is_partial)


@pytest.mark.parametrize("is_partial", [True, False])
def test_a_failure_retracts_text_only_where_some_was_shown(is_partial: bool) -> None:
    end = FailedEnd(code="blocked", message="No.", retryable=False, retract=True)

    frame = failed_frame(TURN, end, is_partial=is_partial)(1, 3)

    assert (b'"retract"' in encode_frame(frame)) is is_partial


def test_a_failure_carries_hint_and_stop_reason_where_there_are_some() -> None:
    end = FailedEnd(
        code="model_rejected", message="m", retryable=False, retry_after_ms=5, stop_reason="refusal"
    )

    frame = failed_frame(TURN, end, is_partial=False)(1, 1)

    assert isinstance(frame, ResponseFailed)
    assert (frame.retry_after_ms, frame.stop_reason) == (5, "refusal")
    assert b"stop_reason" not in encode_frame(
        failed_frame(TURN, failed_end("internal"), is_partial=False)(1, 1)
    )


def test_a_cancellation_measures_the_text_shown() -> None:
    frame = cancelled_frame(TURN, "né", "user")(1, 2)

    digest = hashlib.sha256("né".encode()).hexdigest()
    assert frame == ResponseCancelled(
        turn_id=TURN, attempt=1, seq=2, by="user", length=2, sha256=digest
    )


def test_an_expiry_names_the_age() -> None:
    frame = expired_frame(TURN, 45_001)(0, 0)

    assert frame == ResponseExpired(turn_id=TURN, attempt=0, seq=0, age_ms=45_001)
