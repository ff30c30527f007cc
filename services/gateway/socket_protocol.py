"""uvicorn's WebSocket protocol, opened up where ASGI's `send` is too narrow for a push server.

`send` waits until a slow reader has read, and a close queues behind that. A gateway must write without waiting, know
how much is unsent, and be able to end a connection whose peer reads nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

EXTENSION = "burstchat.socket"
"""The key in the ASGI scope's `extensions` under which the connection's Socket is found."""
WRITE_HIGH_BYTES = 32_768
"""Above it the socket is not writable; small, so that what a reader has not taken is known here, not in buffers."""
CLOSE_GRACE_S = 5.0
"""A peer that has not answered our close frame after this is cut off."""


class Socket(Protocol):
    """What a connection needs of its socket. No method waits."""

    def send_frame(self, data: bytes) -> None:
        """Write one text message; a no-op once the socket is closing."""
        ...

    def close_now(self, code: int, reason: str) -> None:
        """Write a close frame behind what was sent; the peer is cut off if it does not answer. Idempotent."""
        ...

    def is_writable(self) -> bool:
        """False while the unsent bytes are above the mark."""
        ...

    def unsent_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        ...

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the socket becomes writable again."""
        ...


class Inbox:
    """The one-reader queue that a connection needs; asyncio.Queue costs ten times its memory."""

    __slots__ = ("_events", "_waiter")

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._waiter: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        self._events.append(event)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> Any:
        while not self._events:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.pop(0)

    def empty(self) -> bool:
        return not self._events


class GatewaySocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket of the public port; a Socket besides."""

    _writable_callback: Callable[[], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue = cast("asyncio.Queue[Any]", Inbox())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):  # not so for a request that is no valid handshake
            extensions = cast("dict[str, Any]", self.scope["extensions"])
            extensions[EXTENSION] = self

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writable_callback is not None:
            self._writable_callback()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable_callback = None
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        # A graceful close would wait for a peer that has vanished, for as long as the kernel retries.
        super().keepalive_timeout()
        self.transport.abort()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.accept":
            # The handshake is over; on an idle socket it would be a fifth of the memory.
            self.scope["headers"] = ()
            del self.request, self.response
        elif message["type"] == "websocket.http.response.body":
            # A refusal answers the handshake; left open, uvicorn logs an error for each.
            self.handshake_complete = True

    # Socket --------------------------------------------------------------------------------------

    def send_frame(self, data: bytes) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        try:
            self.conn.send_text(data)
        except InvalidState:  # the peer's close frame is already in
            return
        self.transport.write(b"".join(self.conn.data_to_send()))

    def close_now(self, code: int, reason: str) -> None:
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return
        try:
            self.conn.send_close(code, reason)
        except InvalidState:
            return
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.stop_keepalive()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(CLOSE_GRACE_S, self.transport.abort)

    def is_writable(self) -> bool:
        return self.writable.is_set()

    def unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def on_writable(self, callback: Callable[[], None]) -> None:
        self._writable_callback = callback
