"""ConnectionRegistry: who holds a connection, in memory and in Valkey."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionId, SessionRef
from shared.contracts.identifiers import TenantId as Tenant
from shared.contracts.identifiers import UserId as User
from shared.ports import ConnectionRegistry
from tests.fakes.ledger_world import LedgerWorld, ValkeyWorld, follower
from tests.fakes.registry import FakeRegistry

SESSION = SessionRef(Tenant("acme"), User("ann"), SessionId("s1"))
ANN = follower("ann", "gateway-1")


async def test_registered_connection_is_found(world: LedgerWorld) -> None:
    await world.registry.register(SESSION, ANN)
    assert await world.registry.lookup(ANN.connection_id) == ANN


async def test_unknown_connection_is_gone(world: LedgerWorld) -> None:
    assert await world.registry.lookup(ConnectionId("nobody")) is None


async def test_unregistered_connection_is_gone(world: LedgerWorld) -> None:
    await world.registry.register(SESSION, ANN)
    await world.registry.unregister(SESSION, ANN)
    await world.registry.unregister(SESSION, ANN)
    assert await world.registry.lookup(ANN.connection_id) is None


@pytest.mark.case("B-17")
async def test_unregister_by_a_former_owner_leaves_the_entry(world: LedgerWorld) -> None:
    former = msgspec.structs.replace(ANN, owner=OwnerId("gateway-0"))
    await world.registry.register(SESSION, former)
    await world.registry.register(SESSION, ANN)
    await world.registry.unregister(SESSION, former)
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


class Counting:
    """A registry that lets each user have two connections."""

    def __init__(self, world: LedgerWorld) -> None:
        self.registry: ConnectionRegistry
        if isinstance(world, ValkeyWorld):
            self.registry = RedisConnectionRegistry(
                world.client, owner_lease_ms=60_000, user_connections=2
            )
        else:
            self.registry = world.registry = FakeRegistry(world.clock, user_connections=2)
        self.kill = world.kill if isinstance(world, ValkeyWorld) else self._kill

    async def _kill(self, owner: OwnerId) -> None:
        assert isinstance(self.registry, FakeRegistry)
        self.registry.kill(owner)

    async def opens(self, name: str, owner: str = "gateway-1", user: str = "ann") -> bool:
        session = msgspec.structs.replace(SESSION, user=User(user))
        return await self.registry.register(session, follower(name, owner))


async def test_a_user_has_so_many_connections_on_all_gateways_together(world: LedgerWorld) -> None:
    counting = Counting(world)
    assert await counting.opens("c1", "gateway-1")
    assert await counting.opens("c2", "gateway-2")
    assert not await counting.opens("c3", "gateway-3")
    assert await counting.registry.lookup(ConnectionId("c3")) is None
    assert await counting.opens("c4", user="bob")
    assert await counting.opens("c1", "gateway-1")  # a repeat is no further one


async def test_a_connection_that_closes_makes_room(world: LedgerWorld) -> None:
    counting = Counting(world)
    await counting.opens("c1")
    await counting.opens("c2")
    await counting.registry.unregister(SESSION, follower("c1", "gateway-1"))
    assert await counting.opens("c3")
    assert not await counting.opens("c4")


async def test_connections_of_a_dead_gateway_do_not_count(world: LedgerWorld) -> None:
    counting = Counting(world)
    await counting.opens("c1", "gateway-1")
    await counting.opens("c2", "gateway-2")
    await counting.kill(OwnerId("gateway-1"))
    assert await counting.opens("c3", "gateway-2")
    assert not await counting.opens("c4", "gateway-2")


@pytest.mark.case("B-26")
async def test_counting_costs_no_round_trip_more_however_many_connections_there_are(
    valkey_world: ValkeyWorld,
) -> None:
    registry = RedisConnectionRegistry(
        valkey_world.client, owner_lease_ms=60_000, user_connections=10_000
    )
    await registry.register(SESSION, follower("first", "gateway-1"))
    sent = valkey_world.client.sent
    costs = []
    for number in range(200):
        before = valkey_world.client.round_trips
        sent.clear()
        await registry.register(SESSION, follower(f"c{number}", "gateway-1"))
        costs.append((valkey_world.client.round_trips - before, len(sent[0])))
    assert set(costs) == {(1, 3)}


@pytest.mark.case("B-26")
async def test_registering_and_renewing_take_one_round_trip(valkey_world: ValkeyWorld) -> None:
    client = valkey_world.client
    # The first use of a script after a flush of the server costs one more.
    await valkey_world.registry.register(SESSION, ANN)
    await valkey_world.registry.unregister(SESSION, ANN)
    for verb, trips in (
        (valkey_world.registry.register(SESSION, ANN), 1),
        (valkey_world.registry.renew_owner(ANN.owner), 1),
        (valkey_world.registry.lookup(ANN.connection_id), 2),
        (valkey_world.registry.unregister(SESSION, ANN), 1),
    ):
        client.round_trips = 0
        await verb
        assert client.round_trips == trips
