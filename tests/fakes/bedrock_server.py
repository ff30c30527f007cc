"""Bedrock's `invoke-with-response-stream` on a socket: AWS's event-stream framing, and signatures that are checked."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from shared.clock import SystemClock
from shared.policy.sigv4 import Credential, verify
from tests.fakes.http_server import Exchange, RawServer, raw_server

CREDENTIAL = Credential("AKIDROLE", "role-secret", "eu-west-1")


def framed(payload: bytes, **headers: str) -> bytes:
    """One message of `application/vnd.amazon.eventstream`."""
    block = b"".join(
        bytes([len(name) + 1])
        + b":"
        + name.replace("_", "-").encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(block) + len(payload), len(block))
    head = prelude + struct.pack("!I", binascii.crc32(prelude))
    body = head + block + payload
    return body + struct.pack("!I", binascii.crc32(body))


def event(type_: str, **fields: Any) -> bytes:
    data = json.dumps({"type": type_, **fields}, ensure_ascii=False).encode()
    payload = json.dumps({"bytes": base64.b64encode(data).decode(), "p": "abc"}).encode()
    return framed(payload, event_type="chunk", message_type="event")


def delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def exception(name: str) -> bytes:
    return framed(b'{"message":"sorry"}', exception_type=name, message_type="exception")


class Reset:
    """The connection breaks."""


class Silence:
    """Nothing more comes; the call lasts until the client leaves."""


Piece = bytes | Reset | Silence


class BedrockServer:
    """Answers every call with the same pieces, or with a refusal."""

    def __init__(self, pieces: Sequence[Piece], refusal: tuple[int, str] | None = None) -> None:
        self._pieces = pieces
        self._refusal = refusal
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[RawServer]:
        async with raw_server(self._handle) as server:
            yield server

    async def ended(self) -> str:
        """How the call ended: completed, failed, or closed by the client."""
        async with asyncio.timeout(5):
            return await self._ended

    async def _handle(self, exchange: Exchange) -> None:
        request = exchange.request
        assert request.path.endswith("/invoke-with-response-stream")
        fault = verify(
            CREDENTIAL,
            request.method,
            request.path,
            request.query,
            request.headers,
            request.body,
            SystemClock().now_ms(),
            service="bedrock",
        )
        assert fault is None, fault
        assert "model" not in json.loads(request.body)  # it stands in the path
        if self._refusal is not None:
            status, name = self._refusal
            headers = {"x-amzn-errortype": name, "content-type": "application/json"}
            await exchange.answer(status, b'{"message":"sorry"}', headers)
            self._end("failed")
            return
        await exchange.start_stream("application/vnd.amazon.eventstream")
        for piece in self._pieces:
            if isinstance(piece, Reset):
                # What was sent must arrive first: a reset throws away what the peer has not read.
                await asyncio.sleep(0.05)
                exchange.reset()
                self._end("failed")
                return
            if isinstance(piece, Silence):
                await exchange.until_client_left()
                self._end("closed")
                return
            await exchange.chunk(piece)
        await exchange.end_stream()
        self._end("completed")

    def _end(self, how: str) -> None:
        if not self._ended.done():
            self._ended.set_result(how)
