"""Which frames of a connection a reader of one turn gets: in order, each once, gaps noticed (PROTOCOL §4). Pure.

A socket's client does this itself. An HTTP answer cannot ask back, so its virtual connection does it.
"""

from __future__ import annotations

from enum import Enum

from services.gateway.turn_view import FrameHead


class Verdict(Enum):
    """What becomes of one frame."""

    PASS = "pass"
    DROP = "drop"
    GAP = "gap"
    """Frames before it are missing: resume after (`attempt`, `last_seq`), which brings this one again."""


class OrderedReply:
    """What the reader has: the last frame passed on. `turn_id` is empty until `chat.accepted` names it."""

    __slots__ = ("attempt", "is_ended", "is_gap", "last_seq", "turn_id")

    def __init__(self, turn_id: str = "", attempt: int = 0, last_seq: int = -1) -> None:
        self.turn_id = turn_id
        self.attempt = attempt
        self.last_seq = last_seq
        self.is_ended = False  # nothing of the turn follows
        self.is_gap = False  # frames are missing and asked for

    def take(self, head: FrameHead) -> Verdict:
        """Judge the next frame of the connection."""
        if head.type == "chat.accepted":
            self.turn_id = head.turn_id
        if self.is_ended or (head.turn_id and head.turn_id != self.turn_id):
            return Verdict.DROP
        if head.seq < 0:
            return Verdict.PASS
        if head.is_terminal and head.attempt == 0:
            return self._passed(head)
        last_seq = self.last_seq if head.attempt == self.attempt else -1
        if head.attempt < self.attempt or head.seq <= last_seq:
            # A turn ends once: even an end that the reader has, or cannot use, says that nothing follows.
            self.is_ended = head.is_terminal
            return Verdict.DROP
        if head.seq > last_seq + 1:
            self.is_gap = True
            return Verdict.GAP
        return self._passed(head)

    def _passed(self, head: FrameHead) -> Verdict:
        self.attempt, self.last_seq = head.attempt, head.seq
        self.is_gap = False
        self.is_ended = head.is_terminal
        return Verdict.PASS
