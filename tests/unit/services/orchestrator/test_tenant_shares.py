from services.orchestrator.tenant_shares import (
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
