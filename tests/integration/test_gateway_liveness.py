"""Sockets on a way with idle timers, clients that vanish without a packet, and what the handshake agrees on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import websockets

from services.gateway import composition
from tests.fakes.gateway_world import Client, gateway_world

IDLE_LIMIT_S = 0.4


@asynccontextmanager
async def impatient_balancer(port: int) -> AsyncIterator[int]:
    """A TCP proxy that cuts a connection on which nothing moved for IDLE_LIMIT_S."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                async with asyncio.timeout(IDLE_LIMIT_S):
                    data = await reader.read(65_536)
                if not data:
                    break
                writer.write(data)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        for ends in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(carry(*ends))
            tasks.add(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.case("B-24", "B-25")
async def test_our_pings_keep_an_idle_socket_open_behind_an_impatient_balancer() -> None:
    async with (
        gateway_world(heartbeat_ms=100) as world,
        impatient_balancer(world.gateway.public.port) as port,
        websockets.connect(f"ws://127.0.0.1:{port}/ws", compression=None) as socket,
    ):
        client = Client(socket)
        await client.frame()
        with pytest.raises(TimeoutError):
            await client.frame(within_s=3 * IDLE_LIMIT_S)
        await client.send("ping", nonce="still here")
        assert (await client.frame())["nonce"] == "still here"


@pytest.mark.case("B-05", "B-18")
async def test_a_client_that_vanished_without_a_packet_is_found_and_unfollowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(composition, "PONG_TIMEOUT_S", 0.2)
    async with gateway_world(heartbeat_ms=100) as world, world.client() as client:
        await client.ask()
        turn = await world.play()
        client.socket.transport.pause_reading()
        await until(lambda: len(world.gateway.connections) == 0)
        await until(lambda: not world.registry._entries)
        await turn.started(push=False)
        assert turn.followers == ()
        client.socket.transport.abort()


@pytest.mark.case("B-39")
async def test_compression_is_not_agreed_on_although_the_client_offers_it() -> None:
    async with (
        gateway_world() as world,
        websockets.connect(world.ws_url, compression="deflate") as socket,
    ):
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


@pytest.mark.case("B-16", "B-26")
async def test_fifty_clients_come_and_fifty_leave_while_the_registry_is_away() -> None:
    async with gateway_world() as world:
        leaving = [await websockets.connect(world.ws_url, compression=None) for _ in range(50)]
        world.registry.unavailable = True
        refused = await asyncio.gather(
            *(websockets.connect(world.ws_url, compression=None) for _ in range(50)),
            return_exceptions=True,
        )
        await asyncio.gather(*(socket.close() for socket in leaving))
        for error in refused:
            assert isinstance(error, websockets.InvalidStatus)
            assert error.response.status_code == 503
            assert int(error.response.headers["Retry-After"]) >= 1
        await until(lambda: len(world.gateway.connections) == 0)
        world.registry.unavailable = False
        async with world.client() as client:
            assert client.ready["type"] == "session.ready"
