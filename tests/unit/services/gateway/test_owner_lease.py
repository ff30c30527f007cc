"""The lease says when this process's connections count as gone, and its readiness follows that, not a single miss."""

from __future__ import annotations

import pytest

from services.gateway.owner_lease import OwnerLease
from shared.contracts.identifiers import OwnerId
from tests.fakes.clock import FakeClock
from tests.fakes.registry import FakeRegistry

OWNER = OwnerId("g1")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> FakeRegistry:
    return FakeRegistry(clock, owner_lease_ms=5_000)


@pytest.fixture
def lease(registry: FakeRegistry, clock: FakeClock) -> OwnerLease:
    return OwnerLease(registry, OWNER, clock, lease_ms=5_000, renew_ms=1_500)


async def test_a_lease_that_was_never_held_is_a_fault(lease: OwnerLease) -> None:
    assert lease.fault == "not asked yet"


@pytest.mark.case("B-16")
async def test_a_failover_shorter_than_the_lease_flaps_nothing(
    lease: OwnerLease, registry: FakeRegistry, clock: FakeClock
) -> None:
    await lease.renew()
    registry.unavailable = True
    for _ in range(3):
        clock.skip(1.5)
        await lease.renew()
        assert lease.fault is None
    registry.unavailable = False
    clock.skip(0.4)
    await lease.renew()
    clock.skip(4.9)
    assert lease.fault is None


@pytest.mark.case("B-16")
async def test_a_registry_that_is_away_for_a_lease_is_named(
    lease: OwnerLease, registry: FakeRegistry, clock: FakeClock
) -> None:
    await lease.renew()
    registry.unavailable = True
    await lease.renew()
    clock.skip(5)
    assert lease.fault == "the fake registry was told to be away"
    registry.unavailable = False
    await lease.renew()
    assert lease.fault is None


@pytest.mark.case("B-17")
async def test_two_missed_renewals_leave_the_connections_alive(
    lease: OwnerLease, registry: FakeRegistry, clock: FakeClock
) -> None:
    await lease.renew()
    clock.skip(3 * 1.5)
    assert registry.is_alive(OWNER)


async def test_a_process_that_stood_still_does_not_trust_its_lease(
    lease: OwnerLease, clock: FakeClock
) -> None:
    await lease.renew()
    clock.skip(5)
    assert lease.fault == "the lease has lapsed"
