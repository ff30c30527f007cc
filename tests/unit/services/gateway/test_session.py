"""The session machine as a table of inputs and actions: times are epoch ms, one turn unless said otherwise."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from services.gateway.followed_turns import FIRST_QUEUED_AFTER_MS, FOLLOWED_LIMIT, TurnLimits
from services.gateway.frames_in import InputLimits
from services.gateway.lifetime import RENEWAL_GRACE_MS, LifetimeLimits
from services.gateway.session import Session, SessionLimits
from services.gateway.session_io import (
    Accepted,
    Action,
    AskCancel,
    AskHistory,
    AskReplay,
    AskSend,
    Close,
    CouldNotAsk,
    HistoryPage,
    NotFound,
    Refused,
    Replayed,
    Stopped,
    Stopping,
    Write,
    WriteReplay,
)
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import ConnectionId, MessageId, SessionId, TurnId
from shared.contracts.server_frames import ChatHistory, RunningTurn

T0 = 1_700_000_000_000
TURN = TurnId("s1.01ARZ3NDEKTSV4RRFFQ69G5FAV")
OTHER = TurnId("s1.01ARZ3NDEKTSV4RRFFQ69G5FAW")
MESSAGE = MessageId("m1")
SEND = '{"type":"chat.send","message_id":"m1","text":"hello"}'
LIMITS = SessionLimits(
    input=InputLimits(message_bytes=16_384, metadata_bytes=1_024),
    turns=TurnLimits(accepted_hold_ms=3_000, silent_turn_check_ms=3_000, lost_turn_after_ms=10_000),
    lifetime=LifetimeLimits(idle_close_ms=300_000, max_age_ms=6_600_000),
    heartbeat_ms=25_000,
    protocol_errors_per_min=20,
    frames_per_s=30,
)


def new_session(**changes: Any) -> Session:
    limits = msgspec.structs.replace(LIMITS, **changes)
    return Session(limits, ConnectionId("c1"), T0, expires_at_ms=None)


def frame(seq: int, attempt: int = 1, kind: str = "delta", turn: TurnId = TURN) -> bytes:
    name = f"chat.response.{kind}"
    return json.dumps({"type": name, "turn_id": turn, "attempt": attempt, "seq": seq}).encode()


def done(seq: int, attempt: int = 1, turn: TurnId = TURN) -> bytes:
    return frame(seq, attempt, "completed", turn)


def resume(session: Session, after_seq: int = -1, attempt: int | None = None) -> list[Action]:
    text = {"type": "chat.resume", "turn_id": TURN, "after_seq": after_seq, "attempt": attempt}
    return session.receive_text(json.dumps(text), T0)


def accept(session: Session, at_ms: int = T0, **changes: Any) -> list[Action]:
    """Send a message and accept it."""
    assert session.receive_text(SEND, T0) == [AskSend(ChatSend(message_id=MESSAGE, text="hello"))]
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    return session.answered(msgspec.structs.replace(answer, **changes), at_ms)


def replayed(frames: tuple[bytes, ...] = (), **changes: Any) -> Replayed:
    answer = Replayed(
        turn_id=TURN, purpose="resume", attempt=1, from_seq=0, frames=frames, complete=False
    )
    return msgspec.structs.replace(answer, **changes)


def written(actions: list[Action]) -> list[Any]:
    """The decoded frames of actions that are all writes."""
    assert all(isinstance(action, Write) for action in actions), actions
    return [json.loads(action.data) for action in actions if isinstance(action, Write)]


def types(actions: list[Action]) -> list[str]:
    return [one["type"].removeprefix("chat.") for one in written(actions)]


# handshake and input -----------------------------------------------------------------------------


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
    assert session.tick(T0 + 10**9, 0) == []
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


# sends -------------------------------------------------------------------------------------------


def test_an_accepted_message_is_answered_and_its_frames_flow() -> None:
    session = new_session()
    (accepted,) = written(accept(session))
    assert accepted == {
        "type": "chat.accepted",
        "message_id": "m1",
        "turn_id": TURN,
        "path": "inline",
        "duplicate": False,
    }
    assert session.turns.turn_ids() == [TURN]
    assert session.push(frame(0), T0) == [Write(frame(0))]
    assert session.push(done(1), T0) == [Write(done(1))]
    assert session.turns.turn_ids() == []
    assert not session.is_busy


def test_a_waiting_message_says_its_position() -> None:
    (accepted,) = written(accept(new_session(), path="waiting", position=2))
    assert (accepted["path"], accepted["position"]) == ("waiting", 2)


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
    assert session.tick(T0 + 2_999, 0) == []
    assert session.turns.held_bytes > 0
    assert session.tick(T0 + 3_000, 0) == []
    assert session.turns.held_bytes == 0
    session.push(frame(1), T0 + 3_100)
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    _, *rest = session.answered(answer, T0 + 3_200)
    # What came after the gap is shown at once: the client holds it, the check fills the gap.
    assert rest == [AskReplay(TURN, None, -1, "check"), Write(frame(1))]


def test_frames_of_a_message_refused_as_unavailable_are_dropped_until_it_is_sent_again() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    session.push(frame(0), T0)
    refused = Refused(message_id=MESSAGE, code="unavailable", message="again", turn_id=TURN)
    (rejected,) = written(session.answered(refused, T0))
    assert "retry_after_ms" not in rejected
    assert session.push(frame(1), T0) == []
    assert session.turns.held_bytes == 0
    _, ask = accept(session, duplicate=True)
    assert ask == AskReplay(TURN, None, -1, "resume")
    assert session.push(frame(2), T0) == []
    assert session.turns.held_bytes == len(frame(2))


def test_only_so_many_refused_turns_are_remembered() -> None:
    session = new_session()
    for number in range(20):
        session.receive_text(SEND, T0)
        turn = TurnId(f"t{number}")
        session.answered(
            Refused(message_id=MESSAGE, code="unavailable", message="", turn_id=turn), T0
        )
    assert session.push(frame(0, turn=TurnId("t0")), T0) != []
    assert session.push(frame(0, turn=TurnId("t19")), T0) == []


def test_a_duplicate_is_accepted_resumed_and_replayed_before_live_frames() -> None:
    session = new_session()
    session.receive_text(SEND, T0)
    session.push(frame(3), T0)  # the ledger added us before its answer arrived
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="burst", duplicate=True)
    accepted, ask = session.answered(answer, T0)
    assert written([accepted])[0]["duplicate"] is True
    assert ask == AskReplay(TURN, None, -1, "resume")
    assert session.push(frame(4), T0) == []
    log = (frame(0), frame(1), frame(2), frame(3))
    resumed, replay = session.answered(replayed(log), T0)
    assert written([resumed]) == [
        {
            "type": "chat.resumed",
            "turn_id": TURN,
            "attempt": 1,
            "from_seq": 0,
            "complete": False,
        }
    ]
    assert replay == WriteReplay(TURN, log)
    assert session.push(frame(5), T0) == []
    assert session.replay_written(TURN, T0) == [Write(frame(4)), Write(frame(5))]


def test_a_frame_that_is_none_of_a_turn_is_forwarded_as_it_is() -> None:
    session = new_session()
    for data in (b"not json", b"[1]", b"[" * 5_000, b'{"type":"x"}', b'{"turn_id":5}'):
        assert session.push(data, T0) == [Write(data)]
    session.receive_text(SEND, T0)
    assert session.push(b"not json", T0) == [Write(b"not json")]


# resumes -----------------------------------------------------------------------------------------


def test_a_resume_asks_for_what_the_client_misses() -> None:
    assert resume(new_session(), 4, 2) == [AskReplay(TURN, 2, 4, "resume")]


def test_live_frames_are_flushed_above_the_replay_in_attempt_and_seq() -> None:
    session = new_session()
    resume(session, 1, 1)
    for data in (frame(2), frame(3), frame(4), frame(0, attempt=2)):
        assert session.push(data, T0) == []
    session.answered(replayed((frame(2), frame(3)), from_seq=2), T0)
    assert session.replay_written(TURN, T0) == [Write(frame(4)), Write(frame(0, attempt=2))]
    assert session.push(frame(1, attempt=2), T0) == [Write(frame(1, attempt=2))]


def test_an_end_from_outside_any_attempt_is_flushed_whatever_its_numbers() -> None:
    session = new_session()
    resume(session)
    expired = frame(0, attempt=0, kind="expired")
    session.push(expired, T0)
    session.answered(replayed((frame(0), frame(1))), T0)
    assert session.replay_written(TURN, T0) == [Write(expired)]
    assert not session.is_busy


def test_a_complete_replay_ends_the_turn() -> None:
    session = new_session()
    resume(session)
    resumed, _ = session.answered(replayed((frame(0), done(1)), complete=True), T0)
    assert written([resumed])[0]["complete"] is True
    assert session.push(done(1), T0) == []  # the late push of what the replay holds
    assert session.replay_written(TURN, T0) == []
    assert not session.is_busy


def test_two_resumes_are_two_replays_and_live_waits_for_both() -> None:
    session = new_session()
    resume(session)
    resume(session)
    session.push(frame(1), T0)
    session.answered(replayed((frame(0),)), T0)
    assert session.replay_written(TURN, T0) == []
    session.answered(replayed((frame(0),)), T0)
    assert session.replay_written(TURN, T0) == [Write(frame(1))]


def test_a_resume_of_a_turn_that_nobody_knows_is_an_error() -> None:
    session = new_session()
    resume(session)
    (error,) = written(session.answered(NotFound(TURN, "resume"), T0))
    assert (error["code"], error["turn_id"]) == ("unknown_turn", TURN)
    assert not session.is_busy


def test_a_running_turn_that_the_ledger_lost_is_not_called_unknown() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0)
    resume(session)
    session.push(frame(1), T0)
    assert session.answered(NotFound(TURN, "resume"), T0) == [Write(frame(1))]
    assert session.is_busy


def test_a_resume_that_could_not_be_asked_says_so_and_lets_live_frames_flow() -> None:
    session = new_session()
    accept(session)
    resume(session)
    session.push(frame(0), T0)
    error, live = session.answered(CouldNotAsk(TURN, "resume"), T0)
    assert (written([error])[0]["code"], live) == ("unavailable", Write(frame(0)))


def test_a_turn_that_only_the_client_claims_does_not_keep_the_connection_busy() -> None:
    session = new_session()
    resume(session)
    resume(session)
    session.push(frame(0), T0)
    assert len(session.answered(CouldNotAsk(TURN, "resume"), T0)) == 1
    assert session.is_busy
    _, live = session.answered(CouldNotAsk(TURN, "resume"), T0)
    assert live == Write(frame(0))
    assert not session.is_busy


def test_answers_about_a_turn_that_has_ended_meanwhile_change_nothing() -> None:
    session = new_session()
    assert session.answered(replayed((frame(0),)), T0) == []
    assert session.answered(NotFound(TURN, "check"), T0) == []
    assert session.answered(CouldNotAsk(TURN, "check"), T0) == []
    assert session.replay_written(TURN, T0) == []


def test_only_so_many_turns_are_followed() -> None:
    session = new_session()
    for number in range(FOLLOWED_LIMIT):
        session.receive_text(json.dumps({"type": "chat.resume", "turn_id": f"t{number}"}), T0)
    (error,) = written(resume(session))
    assert (error["code"], error["turn_id"]) == ("unavailable", TURN)


# cancels -----------------------------------------------------------------------------------------


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


# silence -----------------------------------------------------------------------------------------


def test_a_silent_turn_is_looked_up_every_three_seconds_one_question_at_a_time() -> None:
    session = new_session()
    accept(session)
    assert session.tick(T0 + 2_999, 0) == []
    assert session.tick(T0 + 3_000, 0) == [AskReplay(TURN, None, -1, "check")]
    assert session.tick(T0 + 60_000, 0) == []
    assert session.answered(CouldNotAsk(TURN, "check"), T0 + 60_000) == []
    assert session.tick(T0 + 60_000, 0) == [AskReplay(TURN, None, -1, "check")]


def test_frames_keep_a_turn_from_being_looked_up() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0 + 2_000)
    assert session.tick(T0 + 4_999, 0) == []
    assert session.tick(T0 + 5_000, 0) == [AskReplay(TURN, 1, 0, "check")]


def test_a_turn_whose_replay_is_under_way_is_not_looked_up() -> None:
    session = new_session()
    resume(session)
    assert session.tick(T0 + 9_000, 0) == []


def checked(session: Session, *frames: bytes, at_ms: int = T0 + 3_000, **changes: Any) -> list[Any]:
    session.tick(at_ms, 0)
    return list(session.answered(replayed(frames, purpose="check", **changes), at_ms))


@pytest.mark.case("B-08", "B-15")
def test_a_silent_turn_that_is_ahead_is_caught_up_without_words() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0)
    (replay,) = checked(session, frame(1), done(2), from_seq=1, complete=True)
    assert replay == WriteReplay(TURN, (frame(1), done(2)))
    assert session.replay_written(TURN, T0) == []
    assert not session.is_busy


def test_a_look_up_repeats_nothing_that_came_by_push_meanwhile() -> None:
    session = new_session()
    accept(session)
    session.tick(T0 + 3_000, 0)
    for data in (frame(0), frame(1)):
        session.push(data, T0 + 3_010)
    log = (frame(0), frame(1), frame(2))
    (replay,) = session.answered(replayed(log, purpose="check"), T0 + 3_020)
    assert replay == WriteReplay(TURN, (frame(2),))


def test_a_look_up_of_a_newer_attempt_brings_all_of_it() -> None:
    session = new_session()
    accept(session)
    session.push(frame(5), T0)
    again = (frame(0, attempt=2), frame(1, attempt=2))
    (replay,) = checked(session, *again, attempt=2)
    assert replay == WriteReplay(TURN, again)
    session.replay_written(TURN, T0)
    assert session.push(frame(2, attempt=2), T0) == [Write(frame(2, attempt=2))]


def test_a_look_up_of_an_older_attempt_brings_nothing() -> None:
    session = new_session()
    accept(session)
    session.tick(T0 + 3_000, 0)
    session.push(frame(0, attempt=2), T0 + 3_010)
    assert session.answered(replayed((frame(0),), purpose="check"), T0 + 3_020) == []


def test_a_look_up_that_finds_an_end_before_any_claim_shows_it() -> None:
    session = new_session()
    accept(session)
    expired = frame(0, attempt=0, kind="expired")
    (replay,) = checked(session, expired, attempt=0, complete=True)
    assert replay == WriteReplay(TURN, (expired,))


def test_a_look_up_whose_log_is_gone_announces_the_stored_answer() -> None:
    session = new_session()
    accept(session)
    session.push(frame(3), T0)
    stored = (frame(0, 2, "started"), done(1, 2))
    resumed, replay = checked(session, *stored, attempt=2, complete=True, is_stored=True)
    assert types([resumed]) == ["resumed"]
    assert replay == WriteReplay(TURN, stored)
    assert session.replay_written(TURN, T0) == []
    assert not session.is_busy


def test_a_turn_that_nobody_knows_for_ten_seconds_ends_failed() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0)
    session.push(frame(1), T0)
    now_ms = T0 + 3_000
    session.tick(now_ms, 0)
    assert session.answered(NotFound(TURN, "check"), now_ms) == []
    for later_ms in (3_000, 6_000, 9_000):
        assert session.tick(now_ms + later_ms, 0) != []
        assert session.answered(NotFound(TURN, "check"), now_ms + later_ms) == []
    assert session.tick(now_ms + 9_999, 0) == []
    session.tick(now_ms + 10_000, 0)
    (failed,) = written(session.answered(NotFound(TURN, "check"), now_ms + 10_000))
    assert (failed["type"], failed["code"]) == ("chat.response.failed", "internal")
    assert (failed["attempt"], failed["seq"], failed["partial"]) == (0, 0, True)
    assert not session.is_busy


@pytest.mark.parametrize("sign_of_life", ["frame", "found", "unanswered"])
def test_a_sign_of_life_or_an_unanswered_question_starts_the_ten_seconds_anew(
    sign_of_life: str,
) -> None:
    session = new_session()
    accept(session)
    session.tick(T0 + 3_000, 0)
    session.answered(NotFound(TURN, "check"), T0 + 3_000)
    session.tick(T0 + 6_000, 0)
    if sign_of_life == "frame":
        session.push(frame(0), T0 + 6_000)
        session.answered(NotFound(TURN, "check"), T0 + 6_000)
    elif sign_of_life == "found":
        session.answered(replayed(purpose="check"), T0 + 6_000)
    else:
        session.answered(CouldNotAsk(TURN, "check"), T0 + 6_000)
    session.tick(T0 + 13_000, 0)
    assert session.answered(NotFound(TURN, "check"), T0 + 13_000) == []


# queued ------------------------------------------------------------------------------------------


def test_a_turn_in_burst_says_so_within_a_second_and_then_once_a_second_until_it_starts() -> None:
    session = new_session()
    accept(session, path="burst")
    assert session.tick(T0 + FIRST_QUEUED_AFTER_MS - 1, 900) == []
    (queued,) = written(session.tick(T0 + FIRST_QUEUED_AFTER_MS, 900))
    assert queued == {"type": "chat.queued", "turn_id": TURN, "wait_ms": 900}
    assert session.tick(T0 + FIRST_QUEUED_AFTER_MS + 999, 800) == []
    assert types(session.tick(T0 + FIRST_QUEUED_AFTER_MS + 1_000, 800)) == ["queued"]
    session.push(frame(0), T0 + 2_000)
    assert session.tick(T0 + 4_000, 0) == []


def test_a_look_up_learns_that_a_waiting_turn_went_to_burst_and_that_it_left() -> None:
    session = new_session()
    accept(session, path="waiting", position=1)
    assert checked(session, is_queued=True) == []
    assert types(session.tick(T0 + 3_000, 0)) == ["queued"]
    session.tick(T0 + 6_000, 0)
    session.answered(replayed(purpose="check", is_queued=True), T0 + 6_000)
    assert types(session.tick(T0 + 7_000, 0)) == ["queued"]
    session.tick(T0 + 9_000, 0)
    session.answered(replayed(purpose="check"), T0 + 9_000)
    assert session.tick(T0 + 11_000, 0) == []


def test_a_resumed_turn_that_waits_in_burst_says_so() -> None:
    session = new_session()
    resume(session)
    session.answered(replayed(attempt=0, is_queued=True), T0)
    session.replay_written(TURN, T0)
    assert types(session.tick(T0, 0)) == ["queued"]


# the end of a connection -------------------------------------------------------------------------


@pytest.mark.case("B-25")
def test_a_connection_without_user_activity_closes_4408_whatever_it_pings() -> None:
    session = new_session()
    session.receive_text('{"type":"chat.history"}', T0 + 1_000)
    session.receive_text('{"type":"ping"}', T0 + 200_000)
    session.receive_text("{", T0 + 200_000)
    assert session.lifetime.last_active_at_ms == T0 + 1_000
    assert session.due_at_ms == T0 + 301_000
    assert session.tick(T0 + 300_999, 0) == []
    assert session.tick(T0 + 301_000, 0) == [Close(4408, "idle")]


@pytest.mark.case("B-35")
def test_neither_idleness_nor_age_closes_in_mid_answer() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0 + 7_000_000)
    assert session.tick(T0 + 7_000_000, 0) == []


@pytest.mark.case("B-35")
def test_an_aged_connection_is_asked_to_renew_and_closed_after_a_grace() -> None:
    session = new_session()
    aged_ms = T0 + 6_600_000
    session.receive_text('{"type":"chat.history"}', aged_ms - 1)
    (goaway,) = written(session.tick(aged_ms, 0))
    assert goaway == {"type": "session.goaway", "reason": "max_age", "reconnect_after_ms": 0}
    assert session.due_at_ms == aged_ms + RENEWAL_GRACE_MS
    assert session.tick(aged_ms + RENEWAL_GRACE_MS - 1, 0) == []
    assert session.tick(aged_ms + RENEWAL_GRACE_MS, 0) == [Close(1001, "max_age")]


def test_an_expired_token_closes_4401_even_in_mid_answer() -> None:
    session = Session(LIMITS, ConnectionId("c1"), T0, expires_at_ms=T0 + 60_000)
    accept(session)
    assert session.due_at_ms == T0 + 60_000
    session.push(frame(0), T0 + 59_000)
    assert session.tick(T0 + 59_999, 0) == []
    assert session.tick(T0 + 60_000, 0) == [Close(4401, "token expired")]


def test_a_draining_connection_stays_until_its_time_and_its_turns_are_over() -> None:
    session = new_session()
    accept(session)
    (goaway,) = written(session.drain(T0, 10_000))
    assert (goaway["reason"], goaway["reconnect_after_ms"]) == ("drain", 10_000)
    assert session.drain(T0, 5) == []
    session.push(frame(0), T0 + 10_000)
    assert session.tick(T0 + 10_000, 0) == []
    session.push(done(1), T0 + 11_000)
    assert session.tick(T0 + 11_000, 0) == [Close(1001, "drain")]


def test_an_idle_connection_of_a_draining_process_stays_until_its_time() -> None:
    session = new_session()
    session.drain(T0, 10_000)
    assert session.due_at_ms == T0 + 10_000
    assert session.tick(T0 + 9_999, 0) == []
    assert session.tick(T0 + 10_000, 0) == [Close(1001, "drain")]


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
