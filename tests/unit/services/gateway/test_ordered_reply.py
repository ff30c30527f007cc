"""The frames that a reader of one turn gets, whatever order and repeats its connection has."""

from __future__ import annotations

import random

import pytest

from services.gateway.ordered_reply import OrderedReply, Verdict
from services.gateway.turn_view import FrameHead

TURN = "s.1"


def logged(seq: int, attempt: int = 1, kind: str = "delta", turn: str = TURN) -> FrameHead:
    return FrameHead(f"chat.response.{kind}", turn, attempt, seq)


def end(seq: int, attempt: int = 1) -> FrameHead:
    return logged(seq, attempt, "completed")


def test_frames_of_the_accepted_turn_pass_in_order_up_to_its_end() -> None:
    reply = OrderedReply()
    heads = [FrameHead("chat.accepted", TURN), logged(0), logged(1), end(2)]
    assert [reply.take(head) for head in heads] == [Verdict.PASS] * 4
    assert (reply.turn_id, reply.attempt, reply.last_seq, reply.is_ended) == (TURN, 1, 2, True)
    assert reply.take(logged(3)) is Verdict.DROP


def test_repeats_lower_attempts_and_other_turns_are_dropped() -> None:
    reply = OrderedReply(TURN, 2, 3)
    for head in (logged(3, 2), logged(0, 2), logged(9, 1), logged(4, 2, turn="s.2")):
        assert reply.take(head) is Verdict.DROP
    assert reply.take(logged(4, 2)) is Verdict.PASS


def test_a_higher_attempt_begins_anew_from_its_first_frame() -> None:
    reply = OrderedReply(TURN, 1, 7)
    assert reply.take(logged(1, 2)) is Verdict.GAP
    assert reply.is_gap
    assert reply.take(logged(0, 2)) is Verdict.PASS
    assert (reply.is_gap, reply.attempt, reply.last_seq) == (False, 2, 0)


def test_an_end_behind_a_gap_is_no_end_yet() -> None:
    reply = OrderedReply(TURN, 1, 0)
    assert reply.take(end(2)) is Verdict.GAP
    assert not reply.is_ended
    assert reply.take(logged(1)) is Verdict.PASS
    assert reply.take(end(2)) is Verdict.PASS


def test_an_end_before_any_attempt_passes_at_once() -> None:
    reply = OrderedReply(TURN, 1, 4)
    assert reply.take(logged(0, 0, "expired")) is Verdict.PASS
    assert reply.is_ended


@pytest.mark.parametrize(("attempt", "seq"), [(1, 2), (9, 0)])
def test_an_end_that_the_reader_has_or_cannot_use_says_that_nothing_follows(
    attempt: int, seq: int
) -> None:
    reply = OrderedReply(TURN, attempt, seq)
    assert reply.take(end(2)) is Verdict.DROP
    assert reply.is_ended


def test_frames_without_a_number_pass_but_those_of_other_turns() -> None:
    reply = OrderedReply(TURN)
    assert reply.take(FrameHead("session.goaway")) is Verdict.PASS
    assert reply.take(FrameHead("chat.queued", TURN)) is Verdict.PASS
    assert reply.take(FrameHead("chat.queued", "s.2")) is Verdict.DROP
    assert not reply.is_ended


def test_any_shuffle_with_resumes_yields_each_frame_once_in_order() -> None:
    log = [logged(seq) for seq in range(8)] + [end(8)]
    for seed in range(50):
        chance = random.Random(seed)
        reply, passed = OrderedReply(TURN), []
        while not reply.is_ended:
            head = chance.choice(log)
            verdict = reply.take(head)
            if verdict is Verdict.GAP:
                for again in log[reply.last_seq + 1 :]:
                    assert reply.take(again) is Verdict.PASS
                    passed.append(again.seq)
            elif verdict is Verdict.PASS:
                passed.append(head.seq)
        assert passed == list(range(9))
