"""Leases are believed after a full lease of answers, never before, and anew after every break."""

from __future__ import annotations

import random

import pytest

from shared.policy.lease_trust import LeaseTrust

LEASE_MS = 3_000


def test_nothing_is_believed_before_the_first_answer() -> None:
    assert not LeaseTrust(LEASE_MS).is_earned(10_000)


def test_trust_is_earned_by_a_full_lease_of_answers() -> None:
    trust = LeaseTrust(LEASE_MS)
    for now_ms in range(0, LEASE_MS, 500):
        trust.answered(now_ms)
        assert not trust.is_earned(now_ms)
    trust.answered(LEASE_MS)
    assert trust.is_earned(LEASE_MS)


@pytest.mark.parametrize("start_ms", [0, 1_700_000_000_000])
def test_any_clock_will_do(start_ms: int) -> None:
    trust = LeaseTrust(LEASE_MS)
    for now_ms in range(start_ms, start_ms + LEASE_MS + 1, 1_000):
        trust.answered(now_ms)
    assert trust.is_earned(start_ms + LEASE_MS)


def test_a_process_that_stood_still_for_a_lease_starts_anew() -> None:
    trust = LeaseTrust(LEASE_MS)
    for now_ms in range(0, 10_000, 500):
        trust.answered(now_ms)
    assert trust.is_earned(10_000)
    assert not trust.is_earned(9_500 + LEASE_MS)
    trust.answered(9_500 + LEASE_MS)
    assert not trust.is_earned(9_500 + LEASE_MS)


def test_an_outage_however_short_starts_anew() -> None:
    trust = LeaseTrust(LEASE_MS)
    for now_ms in range(0, 10_000, 500):
        trust.answered(now_ms)
    trust.lose()
    assert not trust.is_earned(9_600)
    trust.answered(9_600)
    trust.answered(12_500)
    assert not trust.is_earned(12_599)
    assert trust.is_earned(12_600)


@pytest.mark.case("B-26")
def test_processes_that_lost_the_ledger_together_come_back_apart() -> None:
    spread = random.Random(1)
    earned_ms = set()
    for _ in range(20):
        trust = LeaseTrust(LEASE_MS, spread_ms=lambda: spread.uniform(0, LEASE_MS / 3))
        for now_ms in range(0, 5_000, 10):
            trust.answered(now_ms)
            if trust.is_earned(now_ms):
                earned_ms.add(now_ms)
                break
    assert min(earned_ms) >= LEASE_MS
    assert max(earned_ms) <= LEASE_MS * 4 / 3 + 10
    assert len(earned_ms) > 10
