import asyncio

import pytest

from services.http_server import HttpServer, listen
from shared.errors import ConfigurationError


async def hello(scope, receive, send) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]}
    )
    await send({"type": "http.response.body", "body": b"hello"})


async def get(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_http_server_serves_until_cancelled():
    server = HttpServer("web", hello, listen("127.0.0.1", 0, "BURSTCHAT_INTAKE_PORT"))
    port = server.port
    running = asyncio.create_task(server.run())
    assert (await get(port)).endswith(b"hello")

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ConnectionRefusedError):
        await get(port)


def test_a_port_in_use_is_named_with_its_setting():
    first = listen("127.0.0.1", 0, "BURSTCHAT_INTAKE_PORT")
    port = first.getsockname()[1]
    try:
        with pytest.raises(ConfigurationError, match=f"BURSTCHAT_INTAKE_PORT={port}: another"):
            listen("127.0.0.1", port, "BURSTCHAT_INTAKE_PORT")
    finally:
        first.close()


def test_a_foreign_address_is_named_with_its_setting():
    with pytest.raises(ConfigurationError, match="BURSTCHAT_PUBLIC_PORT=0: cannot listen"):
        listen("192.0.2.1", 0, "BURSTCHAT_PUBLIC_PORT")
