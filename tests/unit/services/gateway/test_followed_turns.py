"""Sends, replays, silence and waiting in burst, seen from the machine that follows the turns."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.followed_turns import FIRST_QUEUED_AFTER_MS
from services.gateway.session import Session
from services.gateway.session_io import (
    Accepted,
    AskReplay,
    CouldNotAsk,
    NoteWait,
    NotFound,
    Refused,
    Write,
    WriteReplay,
)
from shared.contracts.identifiers import TurnId
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
    replayed,
    types,
    waits,
    written,
)


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


def test_a_message_that_was_masked_is_told_as_it_is_kept() -> None:
    (accepted,) = written(accept(new_session(), masked_text="mail me at [mail]"))
    assert accepted["text"] == "mail me at [mail]"


def test_a_waiting_message_says_its_position() -> None:
    (accepted,) = written(accept(new_session(), path="waiting", position=2))
    assert (accepted["path"], accepted["position"]) == ("waiting", 2)


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


def test_a_resume_asks_for_what_the_client_misses() -> None:
    assert ask_resume(new_session(), 4, 2) == [AskReplay(TURN, 2, 4, "resume")]


def test_a_complete_replay_ends_the_turn() -> None:
    session = new_session()
    ask_resume(session)
    resumed, _ = session.answered(replayed((frame(0), done(1)), complete=True), T0)
    assert written([resumed])[0]["complete"] is True
    assert session.push(done(1), T0) == []  # the late push of what the replay holds
    assert session.replay_written(TURN, T0) == []
    assert not session.is_busy


def test_two_resumes_are_two_replays_and_live_waits_for_both() -> None:
    session = new_session()
    ask_resume(session)
    ask_resume(session)
    session.push(frame(1), T0)
    session.answered(replayed((frame(0),)), T0)
    assert session.replay_written(TURN, T0) == []
    session.answered(replayed((frame(0),)), T0)
    assert session.replay_written(TURN, T0) == [Write(frame(1))]


def test_a_running_turn_that_the_ledger_lost_is_not_called_unknown() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0)
    ask_resume(session)
    session.push(frame(1), T0)
    assert session.answered(NotFound(TURN, "resume"), T0) == [Write(frame(1))]
    assert session.is_busy


def test_a_resume_that_could_not_be_asked_says_so_and_lets_live_frames_flow() -> None:
    session = new_session()
    accept(session)
    ask_resume(session)
    session.push(frame(0), T0)
    error, live = session.answered(CouldNotAsk(TURN, "resume"), T0)
    assert (written([error])[0]["code"], live) == ("unavailable", Write(frame(0)))


def test_a_turn_that_only_the_client_claims_does_not_keep_the_connection_busy() -> None:
    session = new_session()
    ask_resume(session)
    ask_resume(session)
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


def test_a_silent_turn_is_looked_up_every_three_seconds_one_question_at_a_time() -> None:
    session = new_session()
    accept(session)
    assert session.tick(T0 + 2_999, waits(0)) == []
    assert session.tick(T0 + 3_000, waits(0)) == [AskReplay(TURN, None, -1, "check")]
    assert session.tick(T0 + 60_000, waits(0)) == []
    assert session.answered(CouldNotAsk(TURN, "check"), T0 + 60_000) == []
    assert session.tick(T0 + 60_000, waits(0)) == [AskReplay(TURN, None, -1, "check")]


def test_frames_keep_a_turn_from_being_looked_up() -> None:
    session = new_session()
    accept(session)
    session.push(frame(0), T0 + 2_000)
    assert session.tick(T0 + 4_999, waits(0)) == []
    assert session.tick(T0 + 5_000, waits(0)) == [AskReplay(TURN, 1, 0, "check")]


def test_a_turn_whose_replay_is_under_way_is_not_looked_up() -> None:
    session = new_session()
    ask_resume(session)
    assert session.tick(T0 + 9_000, waits(0)) == []


def checked(session: Session, *frames: bytes, at_ms: int = T0 + 3_000, **changes: Any) -> list[Any]:
    session.tick(at_ms, waits(0))
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
    session.tick(T0 + 3_000, waits(0))
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
    session.tick(T0 + 3_000, waits(0))
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
    session.tick(now_ms, waits(0))
    assert session.answered(NotFound(TURN, "check"), now_ms) == []
    for later_ms in (3_000, 6_000, 9_000):
        assert session.tick(now_ms + later_ms, waits(0)) != []
        assert session.answered(NotFound(TURN, "check"), now_ms + later_ms) == []
    assert session.tick(now_ms + 9_999, waits(0)) == []
    session.tick(now_ms + 10_000, waits(0))
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
    session.tick(T0 + 3_000, waits(0))
    session.answered(NotFound(TURN, "check"), T0 + 3_000)
    session.tick(T0 + 6_000, waits(0))
    if sign_of_life == "frame":
        session.push(frame(0), T0 + 6_000)
        session.answered(NotFound(TURN, "check"), T0 + 6_000)
    elif sign_of_life == "found":
        session.answered(replayed(purpose="check"), T0 + 6_000)
    else:
        session.answered(CouldNotAsk(TURN, "check"), T0 + 6_000)
    session.tick(T0 + 13_000, waits(0))
    assert session.answered(NotFound(TURN, "check"), T0 + 13_000) == []


def test_a_turn_in_burst_says_so_within_a_second_and_then_once_a_second_until_it_starts() -> None:
    session = new_session()
    accept(session, path="burst")
    assert session.tick(T0 + FIRST_QUEUED_AFTER_MS - 1, waits(900)) == []
    (queued,) = written(session.tick(T0 + FIRST_QUEUED_AFTER_MS, waits(900)))
    assert queued == {"type": "chat.queued", "turn_id": TURN, "wait_ms": 900}
    assert session.tick(T0 + FIRST_QUEUED_AFTER_MS + 999, waits(800)) == []
    assert types(session.tick(T0 + FIRST_QUEUED_AFTER_MS + 1_000, waits(800))) == ["queued"]
    assert session.push(frame(0), T0 + 2_000)[1:] == [
        NoteWait(predicted_ms=900, actual_ms=2_000 - FIRST_QUEUED_AFTER_MS)
    ]
    assert session.push(frame(1), T0 + 2_100)[1:] == []
    assert session.tick(T0 + 4_000, waits(0)) == []


def test_the_wait_is_told_by_when_the_turn_was_queued() -> None:
    session = new_session()
    accept(session, path="burst")
    (queued,) = written(session.tick(T0 + 800, lambda queued_at_ms: queued_at_ms - T0 + 7))
    assert queued["wait_ms"] == 7
    session = new_session()
    ask_resume(session)
    found = replayed(attempt=0, is_queued=True, queued_at_ms=T0 - 5_000)
    session.answered(found, T0)
    session.replay_written(TURN, T0)
    (queued,) = written(session.tick(T0, lambda queued_at_ms: T0 - queued_at_ms))
    assert queued["wait_ms"] == 5_000


def test_a_look_up_learns_that_a_waiting_turn_went_to_burst_and_that_it_left() -> None:
    session = new_session()
    accept(session, path="waiting", position=1)
    assert checked(session, is_queued=True) == []
    assert types(session.tick(T0 + 3_000, waits(0))) == ["queued"]
    session.tick(T0 + 6_000, waits(0))
    session.answered(replayed(purpose="check", is_queued=True), T0 + 6_000)
    assert types(session.tick(T0 + 7_000, waits(0))) == ["queued"]
    session.tick(T0 + 9_000, waits(0))
    session.answered(replayed(purpose="check"), T0 + 9_000)
    assert session.tick(T0 + 11_000, waits(0)) == []


def test_a_resumed_turn_that_waits_in_burst_says_so() -> None:
    session = new_session()
    ask_resume(session)
    session.answered(replayed(attempt=0, is_queued=True), T0)
    session.replay_written(TURN, T0)
    assert types(session.tick(T0, waits(0))) == ["queued"]


# what a ledger lost that a reader has ------------------------------------------------------------


@pytest.mark.parametrize(
    ("has", "end"),
    [((2, 0), done(9, attempt=1)), ((1, 5), done(5)), ((1, 5), done(3))],
)
def test_an_end_below_what_the_reader_was_sent_is_followed_by_a_question(
    has: tuple[int, int], end: bytes
) -> None:
    session = new_session()
    accept(session)
    session.push(frame(has[1], attempt=has[0]), T0)

    assert session.push(end, T0 + 10) == [Write(end)]

    assert session.is_busy
    assert session.tick(T0 + 20, waits(0)) == [AskReplay(TURN, *has, "check")]
    stored = (frame(0, attempt=3), done(1, attempt=3))
    resumed, replay = session.answered(
        replayed(stored, purpose="check", attempt=3, complete=True, is_stored=True), T0 + 30
    )
    assert types([resumed]) == ["resumed"]
    assert replay == WriteReplay(TURN, stored)
    session.replay_written(TURN, T0 + 40)
    assert not session.is_busy


@pytest.mark.parametrize(("attempt", "after_seq"), [(2, 0), (1, 8)])
def test_an_end_below_what_a_reader_says_it_has_is_replayed_and_followed_by_a_question(
    attempt: int, after_seq: int
) -> None:
    session = new_session()
    ask_resume(session, after_seq=after_seq, attempt=attempt)
    log = (frame(0), frame(1), done(2))
    session.answered(replayed(log, complete=True), T0 + 5)
    session.replay_written(TURN, T0 + 6)

    assert session.tick(T0 + 20, waits(0)) == [AskReplay(TURN, attempt, after_seq, "check")]


def test_a_reader_that_says_it_has_the_very_end_is_told_it_once_more_and_no_question_follows() -> (
    None
):
    session = new_session()
    ask_resume(session, after_seq=2, attempt=1)
    session.answered(replayed((done(2),), from_seq=2, complete=True), T0 + 5)
    session.replay_written(TURN, T0 + 6)

    assert not session.is_busy


def test_an_end_before_any_claim_counts_whatever_the_reader_has() -> None:
    session = new_session()
    accept(session)
    session.push(frame(4, attempt=2), T0)
    expired = frame(0, attempt=0, kind="expired")

    assert session.push(expired, T0 + 10) == [Write(expired)]
    assert not session.is_busy
