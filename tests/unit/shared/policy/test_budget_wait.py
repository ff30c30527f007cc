"""How long a turn waits for the model budget, and what follows."""

from __future__ import annotations

from shared.policy.budget_wait import after_wait, patience_ms
from shared.policy.retry import GiveUp, HandOver
from tests.fakes.limits import turn_limits

SERVICE = turn_limits(retry_in_process_limit_ms=None)
FUNCTION = turn_limits(retry_in_process_limit_ms=4_000)


def test_a_service_waits_until_a_first_text_could_hardly_come_in_time():
    assert (
        patience_ms(now_ms=1_000, deadline_ms=61_000, may_hand_over_until_ms=61_000, limits=SERVICE)
        == 58_000
    )


def test_a_turn_without_a_deadline_waits_for_ever():
    assert (
        patience_ms(now_ms=1_000, deadline_ms=None, may_hand_over_until_ms=None, limits=SERVICE)
        is None
    )


def test_a_function_waits_no_longer_than_it_would_for_a_retry():
    for until_ms in (61_000, None):
        patience = patience_ms(
            now_ms=1_000, deadline_ms=61_000, may_hand_over_until_ms=until_ms, limits=FUNCTION
        )
        assert patience == 4_000


def test_a_function_that_may_not_hand_over_any_more_waits_like_a_service():
    assert (
        patience_ms(
            now_ms=56_000, deadline_ms=76_000, may_hand_over_until_ms=61_000, limits=FUNCTION
        )
        == 18_000
    )


def test_a_deadline_that_is_over_leaves_no_patience():
    assert (
        patience_ms(
            now_ms=70_000, deadline_ms=61_000, may_hand_over_until_ms=61_000, limits=SERVICE
        )
        == 0
    )


def test_a_service_gives_up_with_the_wait_as_its_hint():
    assert after_wait(9_000, now_ms=0, may_hand_over_until_ms=60_000, limits=SERVICE) == GiveUp(
        9_000
    )


def test_a_function_hands_over_as_long_as_the_next_worker_has_time():
    assert after_wait(9_000, now_ms=0, may_hand_over_until_ms=60_000, limits=FUNCTION) == HandOver(
        9_000
    )
    assert after_wait(58_000, now_ms=0, may_hand_over_until_ms=60_000, limits=FUNCTION) == GiveUp(
        58_000
    )
    assert after_wait(5, now_ms=0, may_hand_over_until_ms=None, limits=FUNCTION) == HandOver(1_000)
