"""A bare HTTP/1.1 server on a real socket, whose handler owns the bytes: for faults that no framework would send."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec


@dataclass
class RawRequest:
    """A request as it came over the wire."""

    method: str
    path: str  # still percent-encoded, without the query
    query: str
    headers: dict[str, str]  # lower-case names
    body: bytes


class Exchange:
    """One request and the means to answer it, byte by byte."""

    def __init__(
        self, request: RawRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def answer_json(self, value: object, status: int = 200) -> None:
        await self.answer(status, msgspec.json.encode(value), {"content-type": "application/json"})

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def start_stream(self, content_type: str = "text/event-stream") -> None:
        await self.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n" % len(data) + data + b"\r\n")

    async def end_stream(self) -> None:
        await self.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """End the connection in good order."""
        self._writer.close()

    async def until_client_left(self) -> None:
        """Return when the client has closed its side."""
        try:
            while await self._reader.read(1024):
                pass
        except ConnectionError:
            pass


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class RawServer:
    """Counts what it saw; `handler` may be replaced at any time."""

    handler: Handler
    port: int = 0
    requests: list[RawRequest] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until_requests(self, count: int) -> None:
        """Return when so many requests have come in."""
        while len(self.requests) < count:
            await self._next_change()

    async def until_no_connection(self) -> None:
        """Return when every client has gone."""
        while self.open_connections:
            await self._next_change()

    async def _next_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self._changed()
                await self.handler(Exchange(request, reader, writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open_connections -= 1
            self._changed()
            writer.close()


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[RawServer]:
    """Serve on a free port of the loopback address."""
    state = RawServer(handler)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(state.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> RawRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RawRequest(method, path, query, headers, body)
