import random

from services.orchestrator.tenant_shares import (
    DEMAND_MEMORY_MS,
    TENANTS_REMEMBERED,
    WAITING_MEMORY_MS,
    TenantShares,
)


def shares(slots: int = 4, **running: int) -> TenantShares:
    counted = TenantShares(slots)
    for tenant, turns in running.items():
        for _ in range(turns):
            counted.start(tenant)
    return counted


def test_a_tenant_alone_may_use_every_slot():
    counted = shares(4, a=4)
    counted.overflow("a", 1_000)
    assert not counted.is_over("a", 1_000)


def test_a_tenant_with_half_of_the_slots_yields_while_another_waits():
    counted = shares(4, a=2, b=1)
    counted.overflow("b", 1_000)
    assert counted.is_over("a", 1_000)
    assert not counted.is_over("b", 1_000)


def test_a_tenant_below_half_is_never_over():
    counted = shares(4, a=1)
    counted.overflow("b", 1_000)
    assert not counted.is_over("a", 1_000)


def test_waiting_is_forgotten_after_some_seconds():
    counted = shares(4, a=2)
    counted.overflow("b", 1_000)
    counted.overflow("a", 3_000)
    assert counted.is_over("a", 1_000 + WAITING_MEMORY_MS)
    assert not counted.is_over("a", 1_001 + WAITING_MEMORY_MS)


def test_a_slot_given_back_counts_no_more():
    counted = shares(2, a=1)
    counted.end("a")
    counted.overflow("b", 0)
    assert not counted.is_over("a", 0)


def test_a_flood_of_tenants_is_remembered_up_to_a_bound():
    counted = shares(2, a=1)
    for number in range(TENANTS_REMEMBERED + 5):
        counted.overflow(f"t{number}", 0)
    assert counted.is_over("a", 0)
    assert len(counted._overflowed_at_ms) == TENANTS_REMEMBERED


def wanting(slots: int, at_ms: int = 0, /, **peaks: int) -> TenantShares:
    """A task at which each tenant once had so many turns at the same time, and has none now."""
    counted = TenantShares(slots)
    for tenant, peak in peaks.items():
        for _ in range(peak):
            counted.want(tenant, at_ms)
            counted.start(tenant)
        for _ in range(peak):
            counted.end(tenant)
    return counted


def fill(counted: TenantShares, tenant: str, now_ms: int, limit: int = 100) -> int:
    """How many slots the tenant gets when it takes what it may."""
    for taken in range(limit):
        counted.want(tenant, now_ms)
        if counted._running.total() == counted._slots or counted.is_over(tenant, now_ms):
            return taken
        counted.start(tenant)
    return limit


def test_a_flood_leaves_free_what_a_quiet_tenant_used_lately() -> None:
    counted = wanting(16, quiet=2)
    assert fill(counted, "flood", 1_000) == 12
    assert fill(counted, "quiet", 1_000) == 4


def test_what_is_kept_free_is_a_small_part_of_the_slots() -> None:
    assert fill(wanting(16, b=4, c=4, d=4), "flood", 1_000) == 12
    assert fill(wanting(4, b=2), "flood", 1_000) == 3


def test_a_tenant_that_stays_away_for_minutes_has_nothing_kept_for_it() -> None:
    counted = wanting(16, quiet=2)
    assert fill(counted, "flood", DEMAND_MEMORY_MS + 1) == 16


def test_floods_of_any_size_end_with_equal_shares() -> None:
    """Each asks for what it has not, the larger ones far more often; a slot comes free by chance."""
    counted, chance = TenantShares(30), random.Random(7)
    askers = ["a"] * 50 + ["b"] * 10 + ["c"] * 3
    held: list[str] = []
    for step in range(6_000):
        if len(held) == 30:
            counted.end(held.pop(chance.randrange(30)))
        chance.shuffle(askers)
        for tenant in askers:
            counted.want(tenant, step)
            if len(held) < 30 and not counted.is_over(tenant, step):
                counted.start(tenant)
                held.append(tenant)
                break
    shares_held = [held.count(tenant) for tenant in "abc"]
    assert sum(shares_held) ** 2 / (3 * sum(share**2 for share in shares_held)) >= 0.95


def test_tenants_that_want_something_are_remembered_up_to_a_bound() -> None:
    counted = TenantShares(8)
    for number in range(TENANTS_REMEMBERED + 5):
        counted.want(f"t{number}", 0)
    assert len(counted._wanted) == TENANTS_REMEMBERED
