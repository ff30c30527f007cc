"""Frames that overtake `chat.accepted`, seen from the machine that writes it."""

from __future__ import annotations

from services.gateway.session_io import (
    Accepted,
    AskReplay,
    Refused,
    Write,
)
from shared.contracts.identifiers import MessageId
from tests.fakes.session_machine import (
    MESSAGE,
    OTHER,
    SEND,
    T0,
    TURN,
    done,
    frame,
    new_session,
    types,
    waits,
    written,
)


def test_frames_that_overtake_the_acceptance_are_held_until_it_is_written() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    assert session.push(frame(0), T0) == []
    assert session.push(frame(1), T0) == []
    assert session.turns.held_bytes == 2 * len(frame(0))
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    accepted, *held = session.answered(answer, T0)
    assert types([accepted]) == ["accepted"]
    assert held == [Write(frame(0)), Write(frame(1))]
    assert session.turns.held_bytes == 0


def test_even_a_whole_turn_may_overtake_its_acceptance() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    for data in (frame(0), done(1)):
        assert session.push(data, T0) == []
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    assert session.answered(answer, T0)[1:] == [Write(frame(0)), Write(done(1))]
    assert session.turns.turn_ids() == []


def test_held_frames_of_another_turn_wait_for_the_last_open_answer() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    session.receive_text(SEND.replace("m1", "m2"), T0)
    assert session.push(frame(0, turn=OTHER), T0) == []
    first = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    assert types(session.answered(first, T0)) == ["accepted"]
    busy = Refused(message_id=MessageId("m2"), code="busy", message="wait", retry_after_ms=5)
    rejected, late = session.answered(busy, T0)
    assert written([rejected]) == [
        {
            "type": "chat.rejected",
            "message_id": "m2",
            "code": "busy",
            "message": "wait",
            "retry_after_ms": 5,
        }
    ]
    assert late == Write(frame(0, turn=OTHER))


def test_frames_held_too_long_are_dropped_and_read_from_the_log_instead() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    session.push(frame(0), T0)
    assert session.tick(T0 + 2_999, waits(0)) == []
    assert session.turns.held_bytes > 0
    assert session.tick(T0 + 3_000, waits(0)) == []
    assert session.turns.held_bytes == 0
    session.push(frame(1), T0 + 3_100)
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    _, *rest = session.answered(answer, T0 + 3_200)
    # What came after the gap is shown at once: the client holds it, the check fills the gap.
    assert rest == [AskReplay(TURN, None, -1, "check"), Write(frame(1))]
