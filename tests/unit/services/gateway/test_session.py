"""The session machine as a table of inputs and actions: input, answers, and the end of a connection."""

from __future__ import annotations

import json

import pytest

from services.gateway.followed_turns import FOLLOWED_LIMIT
from services.gateway.session_io import (
    Accepted,
    AskCancel,
    AskHistory,
    Close,
    CouldNotAsk,
    HistoryPage,
    NotFound,
    Stopped,
    Stopping,
    Write,
)
from shared.contracts.identifiers import SessionId, TurnId
from shared.contracts.server_frames import ChatHistory, RunningTurn
from tests.fakes.session_machine import (
    MESSAGE,
    SEND,
    T0,
    TURN,
    accept,
    ask_resume,
    done,
    frame,
    new_session,
    types,
    waits,
    written,
)


def test_the_first_frame_is_ready_with_the_running_turns() -> None:
    running = [RunningTurn(turn_id=TURN, message_id=MESSAGE, attempt=1, last_seq=12)]
    (ready,) = written(new_session().ready(SessionId("s1"), running))
    assert ready == {
        "type": "session.ready",
        "protocol": 1,
        "connection_id": "c1",
        "session_id": "s1",
        "heartbeat_ms": 25_000,
        "idle_timeout_ms": 300_000,
        "running": [{"turn_id": TURN, "message_id": "m1", "attempt": 1, "last_seq": 12}],
    }


def test_a_ping_is_answered_with_its_nonce() -> None:
    (pong,) = written(new_session().receive_text('{"type":"ping","nonce":7}', T0 + 5))
    assert pong == {"type": "pong", "nonce": 7, "at_ms": T0 + 5}


def test_history_and_cancel_are_asked_for() -> None:
    session = new_session()
    history = '{"type":"chat.history","before":"x","limit":3}'
    assert session.receive_text(history, T0) == [AskHistory(TurnId("x"), 3)]
    cancel = json.dumps({"type": "chat.cancel", "turn_id": TURN})
    assert session.receive_text(cancel, T0) == [AskCancel(TURN)]
    page = HistoryPage(ChatHistory(turns=(), more=False))
    assert types(session.answered(page, T0)) == ["history"]


def test_an_error_names_the_problem_and_leaves_the_connection_open() -> None:
    session = new_session()
    assert [one["code"] for one in written(session.receive_text("{", T0))] == ["invalid_json"]
    codes = [one["code"] for one in written(session.receive_binary(T0))]
    assert codes == ["binary_not_supported"]
    assert not session.is_closed


def test_a_text_that_cannot_become_a_turn_is_rejected_and_no_protocol_error() -> None:
    session = new_session(protocol_errors_per_min=1)
    empty = SEND.replace("hello", " ")
    (rejected,) = written(session.receive_text(empty, T0))
    assert (rejected["type"], rejected["code"]) == ("chat.rejected", "message_empty")
    assert not session.is_closed


def test_too_many_errors_within_a_minute_close_4400_and_nothing_follows() -> None:
    session = new_session()
    for number in range(19):
        assert len(session.receive_text("{", T0 + number)) == 1
    *frames, close = session.receive_text("{", T0 + 59_999)
    assert [one["code"] for one in written(frames)] == ["invalid_json", "too_many_errors"]
    assert close == Close(4400, "too many protocol errors")
    assert session.is_closed
    assert session.receive_text(SEND, T0) == []
    assert session.receive_binary(T0) == []
    assert session.push(frame(0), T0) == []
    assert session.tick(T0 + 10**9, waits(0)) == []
    assert session.drain(T0, 1) == []
    assert session.replay_written(TURN, T0) == []
    assert session.answered(Stopped(TURN, done(1)), T0) == []
    assert session.too_slow() == []
    assert session.leave() == []


def test_errors_spread_over_minutes_do_not_close() -> None:
    session = new_session()
    for number in range(60):
        session.receive_text("{", T0 + number * 3_500)
    assert not session.is_closed


def test_a_flood_is_read_no_faster_than_its_rate() -> None:
    session = new_session()
    assert [session.read_delay_ms(T0) for _ in range(32)][-3:] == [0, 33, 67]
    assert new_session(frames_per_s=0).read_delay_ms(T0) == 0


def test_a_cancel_follows_the_turn_to_its_terminal_frame() -> None:
    session = new_session()
    assert session.answered(Stopping(TURN), T0) == []
    assert session.turns.turn_ids() == [TURN]
    cancelled = frame(4, kind="cancelled")
    assert session.push(cancelled, T0) == [Write(cancelled)]
    assert not session.is_busy


def test_a_cancel_of_an_ended_turn_repeats_its_terminal_frame() -> None:
    session = new_session()
    accept(session)
    assert session.answered(Stopped(TURN, done(7)), T0) == [Write(done(7))]
    assert not session.is_busy


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (NotFound(TURN, "cancel"), "unknown_turn"),
        (CouldNotAsk(TURN, "cancel"), "unavailable"),
        (CouldNotAsk(None, "history"), "unavailable"),
    ],
)
def test_what_could_not_be_done_is_answered(answer: NotFound | CouldNotAsk, code: str) -> None:
    assert [one["code"] for one in written(new_session().answered(answer, T0))] == [code]


def test_a_resume_of_a_turn_that_nobody_knows_is_an_error() -> None:
    session = new_session()
    ask_resume(session)
    (error,) = written(session.answered(NotFound(TURN, "resume"), T0))
    assert (error["code"], error["turn_id"]) == ("unknown_turn", TURN)
    assert not session.is_busy


def test_only_so_many_turns_are_followed() -> None:
    session = new_session()
    for number in range(FOLLOWED_LIMIT):
        session.receive_text(json.dumps({"type": "chat.resume", "turn_id": f"t{number}"}), T0)
    (error,) = written(ask_resume(session))
    assert (error["code"], error["turn_id"]) == ("unavailable", TURN)


def test_the_last_call_closes_at_once() -> None:
    session = new_session()
    accept(session)
    assert session.leave() == [Close(1001, "drain")]


def test_the_service_may_close_a_connection() -> None:
    assert new_session().replace() == [Close(4000, "closed by the service")]


@pytest.mark.case("B-19")
def test_a_slow_reader_is_told_to_resume_and_closed_4409() -> None:
    goaway, close = new_session().too_slow()
    assert written([goaway])[0]["reason"] == "slow"
    assert close == Close(4409, "too slow, resume")


def test_turns_accepted_after_the_close_are_known_for_unfollowing() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    session.leave()
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    assert session.answered(answer, T0) == []
    assert session.turns.turn_ids() == [TURN]
