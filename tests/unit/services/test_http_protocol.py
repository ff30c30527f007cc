"""The head of a request has a limit of time and of size, on a fresh connection and on one that was kept alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.asgi import respond_json
from services.http_server import HttpServer, listen

WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def app(scope, receive, send) -> None:
    await respond_json(send, 200, {})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = HttpServer("test", app, listen("127.0.0.1", 0, "PORT"))
    running = asyncio.create_task(server.run())
    yield server.port
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def read_to_the_end(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    heard = await reader.read()
    writer.close()
    return heard


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
async def test_a_head_that_does_not_come_is_given_up(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.http_protocol.HEAD_TIMEOUT_S", 0.05)

    assert await read_to_the_end(port, sent) == b""


async def test_a_second_head_that_does_not_come_is_given_up_as_well(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.http_protocol.HEAD_TIMEOUT_S", 0.05)

    heard = await read_to_the_end(port, WHOLE + b"GET / HT")

    assert heard.count(b"HTTP/1.1 200") == 1


async def test_a_head_without_end_is_cut_at_its_limit(port: int) -> None:
    """A head that is whole behind the limit is not answered either."""
    lines = [b"X-A: %s\r\n" % (b"a" * 1_000) for _ in range(1_000)]

    try:
        heard = await read_to_the_end(
            port, b"GET / HTTP/1.1\r\nConnection: close\r\n", *lines, b"\r\n"
        )
    except ConnectionError:
        return
    assert heard == b""


async def test_a_whole_head_waits_for_nothing_any_more(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.http_protocol.HEAD_TIMEOUT_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(WHOLE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(2) == b"{}"
        await asyncio.sleep(0.1)
    writer.close()
