"""Which live frames follow a replay, seen from the machine that writes both."""

from __future__ import annotations

from services.gateway.session_io import (
    Write,
)
from tests.fakes.session_machine import (
    SEND,
    T0,
    TURN,
    ask_resume,
    frame,
    new_session,
    replayed,
)


def test_a_frame_that_is_none_of_a_turn_is_forwarded_as_it_is() -> None:
    session = new_session()
    for data in (b"not json", b"[1]", b"[" * 5_000, b'{"type":"x"}', b'{"turn_id":5}'):
        assert session.push(data, T0) == [Write(data)]
    session.receive_text(SEND, T0)
    assert session.push(b"not json", T0) == [Write(b"not json")]


def test_live_frames_are_flushed_above_the_replay_in_attempt_and_seq() -> None:
    session = new_session()
    ask_resume(session, 1, 1)
    for data in (frame(2), frame(3), frame(4), frame(0, attempt=2)):
        assert session.push(data, T0) == []
    session.answered(replayed((frame(2), frame(3)), from_seq=2), T0)
    assert session.replay_written(TURN, T0) == [Write(frame(4)), Write(frame(0, attempt=2))]
    assert session.push(frame(1, attempt=2), T0) == [Write(frame(1, attempt=2))]


def test_an_end_from_outside_any_attempt_is_flushed_whatever_its_numbers() -> None:
    session = new_session()
    ask_resume(session)
    expired = frame(0, attempt=0, kind="expired")
    session.push(expired, T0)
    session.answered(replayed((frame(0), frame(1))), T0)
    assert session.replay_written(TURN, T0) == [Write(expired)]
    assert not session.is_busy
