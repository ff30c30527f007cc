from hypothesis import given
from hypothesis import strategies as st

from shared.policy.waiting_shares import (
    CROWDED_WAIT_MS,
    LONG_WAIT_MS,
    TURNS_REMEMBERED,
    WaitingShares,
)


def shares(*tenants: str, at_ms: int = 0) -> WaitingShares:
    counted = WaitingShares()
    for tenant in tenants:
        counted.queued(tenant, at_ms)
    return counted


def test_a_tenant_alone_crowds_nobody():
    assert not shares(*"aaaa").is_crowding("a", CROWDED_WAIT_MS, 0)


def test_a_tenant_with_its_equal_share_crowds_while_another_waits():
    counted = shares(*"aaab")
    assert counted.is_crowding("a", CROWDED_WAIT_MS, 0)
    assert not counted.is_crowding("b", CROWDED_WAIT_MS, 0)
    assert not counted.is_crowding("c", CROWDED_WAIT_MS, 0)


def test_only_a_long_queue_is_shared_equally():
    counted = shares(*"aabbc")
    assert not counted.is_crowding("a", LONG_WAIT_MS - 1, 0)
    assert counted.is_crowding("a", LONG_WAIT_MS, 0)
    assert not counted.is_crowding("c", LONG_WAIT_MS, 0)


def test_a_short_queue_is_open_to_everybody():
    assert not shares(*"aaab").is_crowding("a", CROWDED_WAIT_MS - 1, 0)


def test_what_was_queued_longer_ago_than_turns_wait_waits_no_more():
    counted = shares("b", at_ms=0)
    for _ in range(3):
        counted.queued("a", 4_000)
    assert counted.is_crowding("a", 6_000, 6_000)
    assert not counted.is_crowding("a", 6_000, 6_001)


def test_a_flood_is_remembered_up_to_a_bound():
    counted = shares(*["a"] * (TURNS_REMEMBERED + 10), "b")
    assert counted.is_crowding("a", CROWDED_WAIT_MS, 0)
    assert len(counted._queued) == TURNS_REMEMBERED


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 20), min_size=2))
def test_somebody_may_always_come_in_and_shares_become_equal(demand: dict[str, int]):
    counted, taken = WaitingShares(), dict.fromkeys(demand, 0)
    for tenant in demand:
        counted.queued(tenant, 0)
        taken[tenant] += 1
    for _ in range(max(demand.values())):
        for tenant, turns in demand.items():
            for _ in range(turns):  # in each round the floods knock more often
                if not counted.is_crowding(tenant, LONG_WAIT_MS, 0):
                    counted.queued(tenant, 0)
                    taken[tenant] += 1
    assert max(taken.values()) - min(taken.values()) <= 2 * len(demand)
