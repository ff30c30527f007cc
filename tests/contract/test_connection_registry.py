"""ConnectionRegistry: who holds a connection, in memory and in Valkey."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionId, SessionRef
from shared.contracts.identifiers import TenantId as Tenant
from shared.contracts.identifiers import UserId as User
from tests.fakes.ledger_world import LedgerWorld, ValkeyWorld, follower

SESSION = SessionRef(Tenant("acme"), User("ann"), SessionId("s1"))
ANN = follower("ann", "gateway-1")


async def test_registered_connection_is_found(world: LedgerWorld) -> None:
    await world.registry.register(SESSION, ANN)
    assert await world.registry.lookup(ANN.connection_id) == ANN


async def test_unknown_connection_is_gone(world: LedgerWorld) -> None:
    assert await world.registry.lookup(ConnectionId("nobody")) is None


async def test_unregistered_connection_is_gone(world: LedgerWorld) -> None:
    await world.registry.register(SESSION, ANN)
    await world.registry.unregister(ANN)
    await world.registry.unregister(ANN)
    assert await world.registry.lookup(ANN.connection_id) is None


@pytest.mark.case("B-17")
async def test_unregister_by_a_former_owner_leaves_the_entry(world: LedgerWorld) -> None:
    former = msgspec.structs.replace(ANN, owner=OwnerId("gateway-0"))
    await world.registry.register(SESSION, former)
    await world.registry.register(SESSION, ANN)
    await world.registry.unregister(former)
    assert await world.registry.lookup(ANN.connection_id) == ANN


@pytest.mark.case("B-17")
async def test_connections_of_a_dead_owner_are_gone_at_once(world: LedgerWorld) -> None:
    others = follower("bob", "gateway-2")
    await world.registry.register(SESSION, others)
    for number in range(100):
        await world.registry.register(SESSION, follower(f"c{number}", "gateway-1"))
    await world.kill(OwnerId("gateway-1"))
    found = await asyncio.gather(
        *(world.registry.lookup(ConnectionId(f"c{number}")) for number in range(100))
    )
    assert set(found) == {None}
    assert await world.registry.lookup(others.connection_id) == others


@pytest.mark.case("B-17")
async def test_renewal_revives_the_connections_of_a_stalled_owner(world: LedgerWorld) -> None:
    await world.registry.register(SESSION, ANN)
    await world.kill(ANN.owner)
    await world.registry.renew_owner(ANN.owner)
    assert await world.registry.lookup(ANN.connection_id) == ANN


@pytest.mark.case("B-17")
async def test_lease_of_an_owner_lapses_by_itself_in_valkey(valkey_world: ValkeyWorld) -> None:
    registry = RedisConnectionRegistry(valkey_world.client, owner_lease_ms=60)
    await registry.register(SESSION, ANN)
    async with asyncio.timeout(5):
        while await registry.lookup(ANN.connection_id) is not None:
            await asyncio.sleep(0.01)


@pytest.mark.case("B-26")
async def test_registering_and_renewing_take_one_round_trip(valkey_world: ValkeyWorld) -> None:
    client = valkey_world.client
    # The first use of a script after a flush of the server costs one more.
    await valkey_world.registry.register(SESSION, ANN)
    await valkey_world.registry.unregister(ANN)
    for verb, trips in (
        (valkey_world.registry.register(SESSION, ANN), 1),
        (valkey_world.registry.renew_owner(ANN.owner), 1),
        (valkey_world.registry.lookup(ANN.connection_id), 2),
        (valkey_world.registry.unregister(ANN), 1),
    ):
        client.round_trips = 0
        await verb
        assert client.round_trips == trips
