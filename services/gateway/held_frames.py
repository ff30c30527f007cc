"""Frames of turns that this connection does not know yet, because their `chat.accepted` is still to be written."""

from __future__ import annotations

from services.gateway.turn_view import FrameHead
from shared.contracts.identifiers import TurnId


class HeldFrames:
    """Frames that overtake the answer to a `chat.send`, by turn.

    A worker may push before the gateway knows whether, and as which turn, a message was accepted. What waits longer
    than `hold_ms` is dropped and its turn counts as missed: the log has it, so it is read when the answer comes.
    """

    __slots__ = ("_frames", "_hold_ms", "_missed", "_since_ms", "size_bytes")

    def __init__(self, hold_ms: int) -> None:
        self._hold_ms = hold_ms
        self._frames: dict[str, list[tuple[FrameHead, bytes]]] = {}
        self._missed: dict[str, None] = {}  # a set would cost four times as much while empty
        self._since_ms = 0
        self.size_bytes = 0

    def hold(self, head: FrameHead, data: bytes, now_ms: int) -> None:
        """Keep a frame."""
        if not self._frames:
            self._since_ms = now_ms
        self._frames.setdefault(head.turn_id, []).append((head, data))
        self.size_bytes += len(data)

    def expire(self, now_ms: int) -> None:
        """Drop what has waited too long."""
        if self._frames and now_ms - self._since_ms >= self._hold_ms:
            self._missed.update(dict.fromkeys(self._frames))
            self._frames.clear()
            self.size_bytes = 0

    def take(self, turn_id: TurnId) -> tuple[list[tuple[FrameHead, bytes]], bool]:
        """The turn's frames in the order they came, and whether earlier ones were dropped."""
        frames = self._frames.pop(turn_id, [])
        self.size_bytes -= sum(len(data) for _, data in frames)
        is_missed = turn_id in self._missed
        self._missed.pop(turn_id, None)
        return frames, is_missed

    def take_all(self) -> list[bytes]:
        """Everything, when no answer is awaited any more."""
        frames = [data for held in self._frames.values() for _, data in held]
        self._frames.clear()
        self._missed.clear()
        self.size_bytes = 0
        return frames
