"""What waits between a connection and its socket: bounded bytes, frames unaltered and in order."""

from __future__ import annotations

from collections import deque


class Outbox:
    """Frames that the socket cannot take yet, and how much it still holds itself.

    Sizes in bytes, times in ms. Half full refuses pushes (the producer then gathers its text); full, or a reader
    that has taken nothing for `stuck_ms`, ends the connection.
    """

    __slots__ = (
        "_frames",
        "_limit_bytes",
        "_moved_at_ms",
        "_sent_bytes",
        "_socket_bytes",
        "_stuck_ms",
        "_taken_bytes",
        "_waiting_bytes",
    )

    def __init__(self, limit_bytes: int, stuck_ms: int) -> None:
        self._limit_bytes = limit_bytes
        self._stuck_ms = stuck_ms
        self._frames: deque[bytes] | None = None  # most connections never need it
        self._waiting_bytes = 0
        self._socket_bytes = 0
        self._sent_bytes = 0
        self._taken_bytes = 0
        self._moved_at_ms = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that wait here and in the socket's own buffer, as last observed."""
        return self._waiting_bytes + self._socket_bytes

    @property
    def is_empty(self) -> bool:
        """True when nothing waits here."""
        return not self._frames

    def put(self, frame: bytes) -> None:
        """Keep a frame behind the others."""
        if self._frames is None:
            self._frames = deque()
        self._frames.append(frame)
        self._waiting_bytes += len(frame)

    def pop(self) -> bytes:
        """The frame that has waited longest. IndexError when empty."""
        if self._frames is None:
            raise IndexError("the outbox is empty")
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if not self._frames:
            self._frames = None
        return frame

    def clear(self) -> None:
        """Forget what waits here; the reader resumes it elsewhere."""
        self._frames = None
        self._waiting_bytes = 0

    def sent(self, frame: bytes) -> None:
        """The frame went to the socket."""
        self._sent_bytes += len(frame)

    def observe(self, socket_bytes: int, now_ms: int) -> None:
        """Note how much the socket's own buffer holds: what it no longer holds, the reader has taken."""
        taken_bytes = self._sent_bytes - socket_bytes
        if taken_bytes > self._taken_bytes or socket_bytes == 0:
            self._taken_bytes = taken_bytes
            self._moved_at_ms = now_ms
        self._socket_bytes = socket_bytes

    def has_room(self, held_bytes: int = 0) -> bool:
        """False from half full on; `held_bytes` wait elsewhere for the same reader."""
        return (self.size_bytes + held_bytes) * 2 < self._limit_bytes

    @property
    def is_full(self) -> bool:
        """True above the limit."""
        return self.size_bytes > self._limit_bytes

    def is_stuck(self, now_ms: int) -> bool:
        """True when there is something to read and the reader has taken nothing for `stuck_ms`."""
        return self._socket_bytes > 0 and now_ms - self._moved_at_ms >= self._stuck_ms
