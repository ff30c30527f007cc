"""A WebSocket in memory: the gateway's Socket port on one end, a simulated client on the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

from services.gateway.socket_protocol import EXTENSION, Inbox
from tests.simulation.loop import Process
from tests.simulation.network import Network

PING_TIMEOUT_S = 35.0
"""A peer that vanished without a word is noticed after this."""


class ClientEnd(Protocol):
    """Who reads at the other end. `is_slow`: it reads nothing for now."""

    is_slow: bool

    def on_event(self, socket: SimSocket, kind: str, value: Any) -> None: ...


class SimSocket:
    """One connection; both directions keep their order."""

    def __init__(
        self, network: Network, process: Process, client: ClientEnd, *, write_high_bytes: int
    ) -> None:
        self.process = process
        self._network = network
        self._client = client
        self._write_high_bytes = write_high_bytes
        self._inbox = Inbox()
        self._inbox.put_nowait({"type": "websocket.connect"})
        self._unread: deque[tuple[str, Any]] = deque()
        self._unsent_bytes = 0
        self._writable: Callable[[], None] | None = None
        self._is_closing = False
        self._is_cut = False
        self._last_out_s = self._last_in_s = 0.0
        process.on_death.append(self._server_died)

    def scope(self, session_id: str) -> dict[str, Any]:
        """The ASGI scope of its handshake."""
        return {
            "type": "websocket",
            "headers": [],
            "query_string": f"session_id={session_id}".encode(),
            "subprotocols": [],
            "client": ("192.0.2.1", 1),
            "extensions": {EXTENSION: self},
        }

    # the gateway's end ---------------------------------------------------------------------------

    async def receive(self) -> Any:
        return await self._inbox.get()

    async def send(self, event: MutableMapping[str, Any]) -> None:
        match event["type"]:
            case "websocket.accept":
                self._out("open", None)
            case "websocket.http.response.start":
                self._is_closing = True
                self._out("denied", event["status"])
            case "websocket.close":
                self.close_now(event["code"], "")

    def send_frame(self, data: bytes) -> None:
        if not self._is_closing:
            self._out("frame", data)

    def close_now(self, code: int, reason: str) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        # A reader that stands still is cut off; what it has not read is lost.
        self._unread.clear()
        self._arrive("close", code)
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": code})

    def is_writable(self) -> bool:
        return self._unsent_bytes <= self._write_high_bytes

    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def on_writable(self, callback: Callable[[], None]) -> None:
        self._writable = callback

    # the client's end ----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """The client sends a text message."""
        self._in({"type": "websocket.receive", "text": text, "bytes": None})

    def resume_reading(self) -> None:
        """The client reads again."""
        while self._unread:
            self._arrive(*self._unread.popleft())
        self._unsent_bytes = 0
        if self._writable is not None:
            self.process.call(self._writable, after_s=self._network.latency_s())

    def cut(self, *, is_silent: bool) -> None:
        """The client is gone; silently = the gateway learns it from an unanswered ping."""
        if self._is_cut:
            return
        after_s = PING_TIMEOUT_S if is_silent else 0.0
        self._in({"type": "websocket.disconnect", "code": 1006}, after_s)
        self._is_cut = True

    def _in(self, event: dict[str, Any], after_s: float = 0.0) -> None:
        if self._is_cut:
            return
        now_s = self._network.loop.time()
        at_s = max(self._last_in_s + 1e-6, now_s + after_s + self._network.latency_s())
        self._last_in_s = at_s
        self.process.call(self._inbox.put_nowait, event, after_s=at_s - now_s)

    def _out(self, kind: str, value: Any) -> None:
        if self._client.is_slow:
            self._unread.append((kind, value))
            self._unsent_bytes += len(value) if isinstance(value, bytes) else 0
        else:
            self._arrive(kind, value)

    def _arrive(self, kind: str, value: Any) -> None:
        now_s = self._network.loop.time()
        at_s = max(self._last_out_s + 1e-6, now_s + self._network.latency_s())
        self._last_out_s = at_s
        self._network.later(at_s - now_s, self._deliver, kind, value)

    def _deliver(self, kind: str, value: Any) -> None:
        if not self._is_cut:
            self._client.on_event(self, kind, value)

    def _server_died(self) -> None:
        self._is_closing = True
        self._network.later(self._network.latency_s(), self._deliver, "lost", None)
