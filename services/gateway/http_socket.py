"""The socket of a virtual connection: an HTTP answer takes its frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from services.gateway.lifetime import CLOSE_SLOW
from services.gateway.ordered_reply import OrderedReply, Verdict
from services.gateway.socket_protocol import WRITE_HIGH_BYTES
from services.gateway.turn_view import frame_head


class Transport(Protocol):
    """What is needed of the TCP connection below the answer."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken yet."""
        ...

    def abort(self) -> None:
        """Cut the peer off without waiting for it to read."""
        ...


class HttpSocket:
    """A Socket whose frames, in order and each once, wait for `take`.

    Bytes count as unsent until the next `take`, which tells that the last frames were written.
    """

    def __init__(
        self, reply: OrderedReply, transport: Transport, on_gap: Callable[[bool], None]
    ) -> None:
        """`on_gap` is called for each frame that cannot be used yet; its argument: the gap is a new one."""
        self._reply = reply
        self._transport = transport
        self._on_gap = on_gap
        self._frames: list[bytes] = []
        self._waiting_bytes = 0
        self._taken_bytes = 0
        self._changed = asyncio.Event()
        self._cut = asyncio.Event()
        self._on_writable: Callable[[], None] = _nothing
        self.close_code: int | None = None
        """Why nothing follows, as a close code of PROTOCOL §5; None while open."""

    # Socket --------------------------------------------------------------------------------------

    def send_frame(self, data: bytes) -> None:
        """See Socket."""
        if self.close_code is not None:
            return
        had_gap = self._reply.is_gap
        verdict = self._reply.take(frame_head(data))
        if verdict is Verdict.GAP:
            self._on_gap(not had_gap)
            return
        if verdict is Verdict.PASS:
            self._frames.append(data)
            self._waiting_bytes += len(data)
        self._changed.set()

    def close_now(self, code: int, reason: str) -> None:
        """See Socket; `reason` has no place in an HTTP answer."""
        if self.close_code is None:
            self.close_code = code
            self._changed.set()
            if code == CLOSE_SLOW:
                self._cut.set()

    def is_writable(self) -> bool:
        """See Socket."""
        return self.unsent_bytes() < WRITE_HIGH_BYTES

    def unsent_bytes(self) -> int:
        """See Socket."""
        own_bytes = self._waiting_bytes + self._taken_bytes
        return own_bytes + self._transport.get_write_buffer_size()

    def on_writable(self, callback: Callable[[], None]) -> None:
        """See Socket."""
        self._on_writable = callback

    # the answer ----------------------------------------------------------------------------------

    async def take(self) -> Sequence[bytes]:
        """The frames since the last call; waits for one. Empty once the turn has ended or the socket is closed.

        Cancellation is safe: no frame is lost.
        """
        self._taken_bytes = 0
        self._on_writable()
        while not self._frames and self.close_code is None and not self._reply.is_ended:
            self._changed.clear()
            await self._changed.wait()
        frames, self._frames = self._frames, []
        self._taken_bytes, self._waiting_bytes = self._waiting_bytes, 0
        return frames

    async def cut_off(self) -> None:
        """Return when the connection has given its reader up for too slow. Cancellation is safe."""
        await self._cut.wait()

    def abort(self) -> None:
        """Cut the client off."""
        self._transport.abort()


def _nothing() -> None:
    """Until a connection listens."""
