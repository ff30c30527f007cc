from __future__ import annotations

from services.gateway.rates import FaultWindow, KeyedBuckets, TokenBucket


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
