"""What a process may spend while nobody can be asked."""

from __future__ import annotations

from shared.policy.budget_share import LocalShare, grown, open_share, spend


def after_a_minute(requests: int, tokens: int, workers: int) -> LocalShare:
    return grown(open_share(requests, tokens, workers, 0), 60_000)


def count(share: LocalShare, tokens: int) -> int:
    spent = 0
    left = spend(share, tokens)
    while left is not None and spent < 1_000:
        spent, left = spent + 1, spend(left, tokens)
    return spent


def test_a_minute_brings_half_of_the_even_part():
    assert count(after_a_minute(80, 0, 4), 1) == 10


def test_an_unknown_number_of_processes_counts_as_sixteen():
    assert count(after_a_minute(320, 0, 0), 1) == 10


def test_nothing_is_there_at_first():
    assert spend(open_share(80, 8_000, 1, 0), 1) is None


def test_credit_does_not_grow_above_a_minutes_worth():
    share = grown(open_share(80, 0, 4, 0), 3_600_000)
    assert count(share, 1) == 10


def test_less_than_one_request_a_minute_adds_up_to_one():
    share = open_share(4, 0, 4, 0)
    assert spend(grown(share, 60_000), 1) is None
    assert spend(grown(share, 120_000), 1) is not None


def test_tokens_limit_like_requests():
    assert count(after_a_minute(0, 8_000, 4), 300) == 3


def test_a_call_above_the_ceiling_takes_a_whole_one():
    share = after_a_minute(0, 8_000, 4)
    assert count(share, 50_000) == 1


def test_a_clock_that_goes_back_takes_nothing_away():
    share = after_a_minute(80, 0, 4)
    assert count(grown(share, 0), 1) == 10
