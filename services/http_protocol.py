"""uvicorn's HTTP protocol with bounds on the head of a request, which it has none of its own for."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_TIMEOUT_S = 20.0
"""From the connection, or from a later request's first byte, to the end of its head."""
HEAD_LIMIT_BYTES = 65_536


class HttpProtocol(HttpToolsProtocol):
    """Closes a connection whose next request's head is late or too large; nobody is served on it yet."""

    _awaited: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Somebody connects."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer has gone, or we have closed."""
        self._head_has_come()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head, or of a body. The limit is looked at after each read, which is bounded itself."""
        super().data_received(data)
        if self._awaited is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._awaited is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_has_come()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._awaited = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_has_come(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None
