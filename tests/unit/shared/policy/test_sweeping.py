"""Every decision about a due turn, and that decisions always lead to an end."""

from __future__ import annotations

from itertools import product
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.ledger import TurnState
from shared.contracts.recovery import DueTurn, Recovery, Release
from shared.contracts.turns import TurnRequest
from shared.policy.sweeping import (
    Decision,
    DispatchAsNew,
    Expire,
    Fail,
    LookAgain,
    OfferToIntake,
    Remove,
    ResendToOwnQueue,
    TakeOver,
    decide,
    decide_unknown,
    next_look_ms,
    second_target,
)
from tests.fakes.limits import sweep_limits

LIMITS = sweep_limits()
T0 = 1_700_000_000_000
S = 1_000
H = 3_600 * S


def turn(recovery: Recovery | None = None, **fields: object) -> DueTurn:
    request = {
        name: fields.pop(name)
        for name in ("detached", "priority", "limit_at_ms", "ready_at_ms")
        if name in fields
    }
    state = TurnState(
        request=TurnRequest(
            turn_id=TurnId("s.1"),
            session_id=SessionId("s"),
            message_id=MessageId("m"),
            tenant=TenantId("t"),
            user=UserId("u"),
            text="hello",
            accepted_at_ms=T0,
            **{"ready_at_ms": T0, **request},  # type: ignore[arg-type]
        ),
        **{  # type: ignore[arg-type]
            "status": "waiting",
            "placed": "inline",
            "attempt": 0,
            "last_seq": -1,
            "lease_until_ms": 0,
            **fields,
        },
    )
    return DueTurn(state=state, recovery=recovery or Recovery())


def lapsed(**recovery: object) -> DueTurn:
    """Attempt 1 lapsed at T0."""
    known = Recovery(**{"tries": 1, **recovery})  # type: ignore[arg-type]
    return turn(known, status="running", attempt=1, lease_until_ms=T0)


def at(due: DueTurn, after_ms: int) -> Decision:
    return decide(due, T0 + after_ms, LIMITS)


class TestUnreadable:
    """What a newer version wrote is left to those who can read it, for a while."""

    @pytest.mark.parametrize(
        "due",
        [
            turn(unreadable=b"?"),
            turn(unreadable=b"?", position=2),
            turn(unreadable=b"?", status="running", attempt=1, lease_until_ms=T0),
            turn(unreadable=b"?", detached=True, priority="low"),
        ],
    )
    def test_it_is_never_dispatched_and_ends_as_evidence_after_45_s(self, due: DueTurn) -> None:
        assert at(due, 0) == LookAgain(T0 + 5 * S)
        assert at(due, 42 * S) == LookAgain(T0 + 45 * S)
        assert at(due, 45 * S) == Fail("internal", "malformed", 0)
        assert at(due, 50 * S) == Fail("internal", "malformed", 5 * S)

    def test_a_worker_that_runs_it_is_left_alone(self) -> None:
        held = turn(unreadable=b"?", status="running", attempt=1, lease_until_ms=T0 + 90 * S)

        assert at(held, 60 * S) == LookAgain(T0 + 90 * S)

    def test_once_ended_it_leaves_the_index(self) -> None:
        assert at(turn(unreadable=b"?", outcome=b"end"), 0) == Remove()


class TestUnknown:
    def test_an_entry_outlives_its_unknown_turn_by_thirty_seconds(self) -> None:
        assert decide_unknown(T0, T0 + 30 * S - 1, LIMITS) == LookAgain(T0 + 30 * S)
        assert decide_unknown(T0, T0 + 30 * S, LIMITS) == Remove()


class TestHeld:
    def test_an_ended_turn_leaves_the_index(self) -> None:
        assert at(turn(outcome=b"end", status="completed"), 0) == Remove()

    def test_a_living_lease_is_looked_at_when_it_would_lapse(self) -> None:
        held = turn(status="running", attempt=1, lease_until_ms=T0 + 3 * S)
        assert at(held, 3 * S - 1) == LookAgain(T0 + 3 * S)


class TestHead:
    def test_a_head_that_nobody_dispatched_is_dispatched_as_new_after_five_seconds(self) -> None:
        assert at(turn(), 5 * S - 1) == LookAgain(T0 + 5 * S)
        assert at(turn(), 5 * S) == DispatchAsNew()

    def test_a_head_popped_late_counts_from_when_it_became_head(self) -> None:
        popped = turn(ready_at_ms=T0 + 60 * S)
        assert at(popped, 65 * S - 1) == LookAgain(T0 + 65 * S)
        assert at(popped, 65 * S) == DispatchAsNew()

    def test_a_reservation_keeps_it_until_it_ends(self) -> None:
        reserved = turn(Recovery(dispatches=1, reserved_until_ms=T0 + 10 * S))
        assert at(reserved, 10 * S - 1) == LookAgain(T0 + 10 * S)
        assert at(reserved, 10 * S) == DispatchAsNew()

    def test_queued_in_burst_for_twenty_seconds_it_is_offered_once(self) -> None:
        queued = turn(placed="burst", placed_at_ms=T0 + S)
        assert at(queued, 21 * S - 1) == LookAgain(T0 + 21 * S)
        assert at(queued, 21 * S) == OfferToIntake()
        offered = turn(
            Recovery(dispatches=1, reserved_until_ms=T0 + 26 * S, is_offered=True),
            placed="burst",
            placed_at_ms=T0 + S,
        )
        assert at(offered, 21 * S) == LookAgain(T0 + 26 * S)
        assert at(offered, 26 * S) == LookAgain(T0 + 45 * S)

    def test_past_the_stale_threshold_it_expires(self) -> None:
        assert at(turn(placed="burst", placed_at_ms=T0 + 40 * S), 45 * S) == Expire(45 * S)
        reserved = turn(Recovery(dispatches=8, reserved_until_ms=T0 + 46 * S))
        assert at(reserved, 44 * S) == LookAgain(T0 + 45 * S)
        assert at(reserved, 45 * S) == Expire(45 * S)

    def test_its_own_limit_may_be_nearer(self) -> None:
        assert at(turn(limit_at_ms=T0 + 2 * S), 2 * S) == Expire(2 * S)


class TestWaiting:
    def test_it_is_looked_at_every_five_seconds(self) -> None:
        waiting = turn(placed="waiting", position=2, ready_at_ms=0)
        assert at(waiting, 7 * S) == LookAgain(T0 + 12 * S)
        assert at(waiting, 178 * S) == LookAgain(T0 + 180 * S)

    def test_it_ends_by_its_own_limit_only(self) -> None:
        waiting = turn(placed="waiting", position=2, ready_at_ms=0)
        assert at(waiting, 180 * S) == Expire(180 * S)

    def test_a_detached_turn_behind_a_head_keeps_the_limit_of_its_priority(self) -> None:
        waiting = turn(
            placed="waiting", position=1, ready_at_ms=0, detached=True, priority="normal"
        )
        assert at(waiting, 600 * S) == LookAgain(T0 + 605 * S)
        assert at(waiting, 3_600 * S) == Expire(3_600 * S)


class TestOwnQueue:
    @pytest.mark.parametrize(("priority", "limit_ms"), [("normal", H), ("low", 24 * H)])
    def test_it_is_sent_once_more_at_half_its_limit_and_never_to_the_intake(
        self, priority: str, limit_ms: int
    ) -> None:
        fields = {
            "detached": True,
            "priority": priority,
            "placed": "queue",
            "placed_at_ms": T0,
            "ready_at_ms": 0,
        }
        queued = turn(**fields)
        assert at(queued, limit_ms // 2 - 1) == LookAgain(T0 + limit_ms // 2)
        assert at(queued, limit_ms // 2) == ResendToOwnQueue()
        resent = turn(Recovery(dispatches=1, is_offered=True), **fields)
        assert at(resent, limit_ms // 2 + 6 * S) == LookAgain(T0 + limit_ms)
        assert at(resent, limit_ms) == Expire(limit_ms)

    def test_one_that_never_reached_its_queue_is_dispatched_as_new(self) -> None:
        outside = turn(detached=True, priority="low", ready_at_ms=0)
        assert at(outside, 5 * S) == DispatchAsNew()


class TestReopened:
    def test_one_that_was_not_sent_is_dispatched_whatever_its_age(self) -> None:
        fields = {"attempt": 2, "detached": True, "priority": "low", "ready_at_ms": 0}
        reopened = turn(**fields)
        assert at(reopened, 500 * H) == DispatchAsNew()
        reserved = turn(Recovery(dispatches=1, reserved_until_ms=T0 + 500 * H + S), **fields)
        assert at(reserved, 500 * H) == LookAgain(T0 + 500 * H + S)
        assert next_look_ms(reopened, DispatchAsNew(), T0 + 500 * H, LIMITS) == T0 + 500 * H + 5 * S

    def test_its_limit_counts_from_when_it_was_sent(self) -> None:
        sent = turn(
            attempt=2,
            detached=True,
            priority="low",
            ready_at_ms=0,
            limit_at_ms=T0 + H,
            placed="queue",
            placed_at_ms=T0 + 500 * H,
        )
        assert at(sent, 511 * H) == LookAgain(T0 + 512 * H)
        assert at(sent, 524 * H) == Expire(24 * H)


class TestLapsed:
    def test_the_retry_queue_comes_first_then_the_intake_then_alternately(self) -> None:
        targets = [
            at(lapsed(dispatches=number, first_dispatched_at_ms=T0), S) for number in range(4)
        ]
        assert targets == [
            TakeOver("retry"),
            TakeOver("intake"),
            TakeOver("retry"),
            TakeOver("intake"),
        ]

    def test_a_detached_turn_alternates_with_its_own_queue(self) -> None:
        low = turn(
            Recovery(tries=1, dispatches=1, first_dispatched_at_ms=T0),
            status="running",
            attempt=1,
            lease_until_ms=T0,
            detached=True,
            priority="low",
        )
        assert at(low, S) == TakeOver("own_queue")

    def test_only_a_retry_queue_that_cannot_be_asked_has_a_second_target_at_once(self) -> None:
        high = lapsed().state.request
        low = msgspec.structs.replace(high, detached=True, priority="low")
        assert second_target("retry", high) == "intake"
        assert second_target("retry", low) == "own_queue"
        assert second_target("intake", high) is None
        assert second_target("own_queue", low) is None

    def test_nothing_is_dispatched_within_a_reservation(self) -> None:
        reserved = lapsed(dispatches=1, first_dispatched_at_ms=T0, reserved_until_ms=T0 + 5 * S)
        assert at(reserved, 5 * S - 1) == LookAgain(T0 + 5 * S)

    def test_unclaimed_for_45_s_after_the_first_dispatch_it_fails(self) -> None:
        asked = lapsed(dispatches=9, first_dispatched_at_ms=T0 + S)
        assert at(asked, 46 * S - 1) == TakeOver("intake")
        assert at(asked, 46 * S) == Fail("attempts_exhausted", "failed", 0)

    def test_an_outage_ends_no_turn_that_nobody_was_asked_to_take_over(self) -> None:
        assert at(lapsed(), 600 * S) == TakeOver("retry")

    def test_two_crashed_attempts_are_poison(self) -> None:
        assert at(lapsed(crashes=1), 2 * S) == Fail("attempts_exhausted", "poison", 2 * S)

    def test_a_released_attempt_has_not_crashed(self) -> None:
        assert at(lapsed(crashes=1, released="handed_over"), S) == TakeOver("retry")

    def test_a_failure_of_ours_is_always_evidence_and_a_late_retry_never(self) -> None:
        ends = {
            decision
            for released in (None, *get_args(Release))
            for crashes, tries, dispatches, position in product(
                range(4), range(5), range(3), (0, 1)
            )
            for after_ms in (0, 50 * S, 200 * S)
            if isinstance(
                decision := decide(
                    turn(
                        Recovery(
                            tries=tries, crashes=crashes, released=released, dispatches=dispatches
                        ),
                        status="running",
                        attempt=1,
                        lease_until_ms=T0,
                        position=position,
                    ),
                    T0 + after_ms,
                    LIMITS,
                ),
                Fail,
            )
        }

        assert {end.code for end in ends} == {"attempts_exhausted", "deadline_exceeded"}
        assert {end.dead_letter for end in ends} == {None, "failed", "poison"}
        assert all(
            (end.code == "attempts_exhausted") == (end.dead_letter is not None) for end in ends
        )

    def test_used_up_attempts_fail(self) -> None:
        used_up = lapsed(tries=3, released="handed_over")
        assert at(used_up, S) == Fail("attempts_exhausted", "failed", S)

    def test_a_postponed_retry_waits_for_its_time_and_fails_45_s_after_it(self) -> None:
        postponed = lapsed(
            released="postponed",
            due_at_ms=T0 + 8 * S,
            reserved_until_ms=T0 + 13 * S,
            dispatches=1,
            first_dispatched_at_ms=T0 + 8 * S,
        )
        assert at(postponed, S) == LookAgain(T0 + 13 * S)
        assert at(postponed, 13 * S) == TakeOver("intake")
        assert at(postponed, 53 * S) == Fail("deadline_exceeded", None, 0)

    @pytest.mark.case("B-29")
    def test_a_stored_answer_is_delivered_whatever_is_used_up(self) -> None:
        delivery = lapsed(crashes=5, tries=9, is_delivery=True, dispatches=1)
        assert at(delivery, 900 * S) == TakeOver("intake")

    def test_beside_a_head_that_re_entered_it_waits_for_its_turn(self) -> None:
        beside = turn(Recovery(tries=1), status="running", attempt=1, lease_until_ms=T0, position=1)
        assert at(beside, S) == LookAgain(T0 + 6 * S)
        assert at(beside, 180 * S) == Fail("deadline_exceeded", None, 0)


class TestNextLook:
    def test_an_act_is_looked_at_again_after_a_reservation(self) -> None:
        now_ms = T0 + 5 * S
        assert next_look_ms(lapsed(), TakeOver("retry"), now_ms, LIMITS) == now_ms + 5 * S
        assert next_look_ms(turn(), DispatchAsNew(), now_ms, LIMITS) == now_ms + 5 * S

    def test_a_dispatch_is_looked_at_no_later_than_the_turns_limit(self) -> None:
        assert next_look_ms(turn(), DispatchAsNew(), T0 + 42 * S, LIMITS) == T0 + 45 * S
        assert next_look_ms(turn(), Expire(46 * S), T0 + 46 * S, LIMITS) == T0 + 51 * S

    def test_other_decisions_say_it_themselves(self) -> None:
        assert next_look_ms(None, Remove(), T0, LIMITS) is None
        assert next_look_ms(None, LookAgain(T0 + 7), T0, LIMITS) == T0 + 7


# the whole life of a turn, played by chance -----------------------------------------------------------

END = (Expire, Fail, Remove)
DISPATCH = (DispatchAsNew, OfferToIntake, ResendToOwnQueue, TakeOver)


def reserve(due: DueTurn, now_ms: int, decision: Decision) -> DueTurn:
    recovery = msgspec.structs.replace(
        due.recovery,
        dispatches=due.recovery.dispatches + 1,
        reserved_until_ms=now_ms + LIMITS.reservation_ms,
        first_dispatched_at_ms=due.recovery.first_dispatched_at_ms or now_ms,
        is_offered=due.recovery.is_offered
        or isinstance(decision, OfferToIntake | ResendToOwnQueue),
    )
    return msgspec.structs.replace(due, recovery=recovery)


def claim_and_crash(due: DueTurn, now_ms: int) -> DueTurn:
    crashes = due.recovery.crashes + (due.state.attempt > 0 and due.recovery.released is None)
    state = msgspec.structs.replace(
        due.state,
        status="running",
        attempt=due.state.attempt + 1,
        lease_until_ms=now_ms + LIMITS.lease_ms,
        position=0,
    )
    return DueTurn(state=state, recovery=Recovery(tries=due.recovery.tries + 1, crashes=crashes))


def mark_queued(due: DueTurn, now_ms: int) -> DueTurn:
    path = "burst" if due.state.request.priority == "high" else "queue"
    state = msgspec.structs.replace(due.state, placed=path, placed_at_ms=now_ms)
    return msgspec.structs.replace(due, state=state)


def pop(due: DueTurn, now_ms: int) -> DueTurn:
    """Its predecessors have ended; their finisher died before it dispatched this head."""
    if not due.state.position:
        return due
    request = msgspec.structs.replace(due.state.request, ready_at_ms=now_ms)
    state = msgspec.structs.replace(due.state, request=request, position=0, placed="inline")
    return msgspec.structs.replace(due, state=state)


def release(due: DueTurn, now_ms: int) -> DueTurn:
    if due.state.status != "running" or due.state.lease_until_ms <= now_ms:
        return due
    state = msgspec.structs.replace(due.state, lease_until_ms=now_ms)
    recovery = msgspec.structs.replace(due.recovery, released="handed_over", due_at_ms=now_ms)
    return DueTurn(state=state, recovery=recovery)


@given(
    position=st.integers(0, 2),
    predecessors_end=st.integers(0, 100),
    priority=st.sampled_from(["high", "normal", "low"]),
    fates=st.lists(st.sampled_from(["silence", "silence", "crash", "queued", "release"])),
    late_ms=st.lists(st.integers(0, 20_000), max_size=40),
)
def test_every_unended_turn_ends_and_is_never_dispatched_twice_within_a_reservation(
    position: int, predecessors_end: int, priority: str, fates: list[str], late_ms: list[int]
) -> None:
    due = turn(
        position=position,
        priority=priority,
        detached=priority != "high",
        placed="waiting" if position else "inline",
    )
    now_ms, dispatched_at_ms = T0, 0
    for step in range(1_000):
        decision = decide(due, now_ms, LIMITS)
        if isinstance(decision, END):
            return
        if isinstance(decision, LookAgain):
            assert decision.at_ms > now_ms
            now_ms = decision.at_ms
            if step >= predecessors_end:
                due = pop(due, now_ms)
        else:
            assert isinstance(decision, DISPATCH)
            assert now_ms - dispatched_at_ms >= LIMITS.reservation_ms
            dispatched_at_ms = now_ms
            due = reserve(due, now_ms, decision)
            fate = fates.pop() if fates else "silence"
            if fate == "crash":
                due, dispatched_at_ms = claim_and_crash(due, now_ms), 0
            elif due.state.status == "waiting" and (fate == "queued" or priority != "high"):
                due = mark_queued(due, now_ms)
        if fates and fates[-1] == "release":
            due = release(due, now_ms)
        now_ms += late_ms[step] if step < len(late_ms) else 0
    raise AssertionError("the turn never ended")
