from __future__ import annotations

import pytest

from services.gateway.rates import ConnectBudget, FaultWindow, KeyedBuckets, TokenBucket


def test_a_bucket_allows_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(per_s=10, burst=3, now_ms=0)
    assert [bucket.take(0) for _ in range(4)] == [0, 0, 0, 100]
    assert bucket.take(50) == 50
    assert bucket.take(100) == 0
    assert [bucket.take(60_000) for _ in range(4)] == [0, 0, 0, 100]


def test_a_bucket_owes_more_with_every_token_beyond_its_burst() -> None:
    bucket = TokenBucket(per_s=10, burst=2, now_ms=0)
    assert [bucket.owe(0) for _ in range(4)] == [0, 0, 100, 200]
    assert bucket.owe(1_000) == 0


def test_a_bucket_is_not_moved_by_a_clock_that_steps_back() -> None:
    bucket = TokenBucket(per_s=10, burst=1, now_ms=1_000)
    assert bucket.take(1_000) == 0
    assert bucket.take(0) == 100
    assert bucket.take(100) == 0


def test_a_token_given_back_can_be_taken_again_but_never_exceeds_the_burst() -> None:
    bucket = TokenBucket(per_s=1, burst=1, now_ms=0)
    bucket.give_back()
    assert [bucket.take(0) for _ in range(2)] == [0, 1_000]
    bucket.give_back()
    assert bucket.take(0) == 0


def test_keys_have_buckets_of_their_own_and_zero_means_off() -> None:
    buckets = KeyedBuckets(per_s=1, burst=1)
    assert [buckets.take("a", 0), buckets.take("b", 0), buckets.take("a", 0)] == [0, 0, 1_000]
    buckets.give_back("a")
    buckets.give_back("nobody")
    assert buckets.take("a", 0) == 0
    assert [KeyedBuckets(per_s=0, burst=0).take("a", 0) for _ in range(9)] == [0] * 9


def test_the_least_recently_used_key_is_forgotten_at_the_limit() -> None:
    buckets = KeyedBuckets(per_s=1, burst=1, keys_limit=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 0)
    assert buckets.take("a", 0) > 0
    assert buckets.take("b", 0) == 0


def test_faults_count_only_inside_the_window() -> None:
    window = FaultWindow(limit=3, window_ms=1_000)
    assert [window.add(at) for at in (0, 500, 1_000)] == [False, False, False]
    assert window.add(1_200)
    assert not window.add(9_000)


def test_a_connect_budget_that_is_off_admits_everybody() -> None:
    budget = ConnectBudget(0)
    assert [budget.take(0) for _ in range(1_000)] == [0] * 1_000


@pytest.mark.case("B-26")
def test_those_who_come_too_many_are_told_places_one_after_the_other() -> None:
    budget = ConnectBudget(100)
    told = [budget.take(0) for _ in range(400)]
    assert told[:100] == [0] * 100
    assert told[100:] == [1_000 + 10 * place for place in range(1, 301)]


@pytest.mark.case("B-26")
def test_a_storm_that_comes_back_as_told_is_admitted_at_the_budgets_pace() -> None:
    budget = ConnectBudget(100)
    due = dict.fromkeys(range(2000), 0)
    admitted: list[int] = []
    tries = 0
    for second in range(60):
        now_ms = second * 1_000
        for client in [each for each, at_ms in due.items() if at_ms <= now_ms]:
            tries += 1
            wait_ms = budget.take(now_ms)
            if wait_ms:
                due[client] = now_ms + wait_ms
            else:
                del due[client]
                admitted.append(second)
    assert not due
    assert max(admitted.count(second) for second in range(60)) <= 100
    assert max(admitted) <= 30
    assert tries <= 2_000 * 4


def test_the_line_begins_again_before_hints_become_too_long() -> None:
    budget = ConnectBudget(10, line_s=5)
    assert max(budget.take(0) for _ in range(500)) <= 6_000
