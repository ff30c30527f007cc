"""What one connection has seen of one turn: a view, never the truth, which is the ledger's."""

from __future__ import annotations

import msgspec

from shared.contracts.identifiers import TurnId

_TERMINAL = frozenset(
    (
        "chat.response.completed",
        "chat.response.failed",
        "chat.response.cancelled",
        "chat.response.expired",
    )
)


class FrameHead(msgspec.Struct, frozen=True):
    """The fields of a pushed frame that decide where it goes."""

    type: str = ""
    turn_id: str = ""
    attempt: int = 0
    seq: int = -1

    @property
    def is_terminal(self) -> bool:
        """True for a frame that ends its turn."""
        return self.type in _TERMINAL


_decode_head = msgspec.json.Decoder(FrameHead).decode
_NO_HEAD = FrameHead()


def frame_head(data: bytes) -> FrameHead:
    """The head of pushed bytes; an empty one for bytes that are no frame of a turn."""
    try:
        return _decode_head(data)
    except (msgspec.MsgspecError, RecursionError):
        return _NO_HEAD


class TurnView:
    """One followed turn. Its frames are held while a replay of it is asked for or being written."""

    __slots__ = (
        "attempt",
        "claimed",
        "heard_at_ms",
        "held",
        "held_bytes",
        "is_checking",
        "is_ended",
        "is_known",
        "last_seq",
        "lost_since_ms",
        "next_check_ms",
        "predicted",
        "queued_at_ms",
        "queued_due_ms",
        "replays",
        "turn_id",
    )

    def __init__(self, turn_id: TurnId, now_ms: int, check_after_ms: int) -> None:
        self.turn_id = turn_id
        self.attempt = 0  # of the last frame sent to the client; 0 = none yet
        self.last_seq = -1  # of the last frame sent to the client
        self.claimed = (0, -1)  # the last frame, by attempt and seq, that the client says it has
        self.heard_at_ms = now_ms
        self.next_check_ms = now_ms + check_after_ms  # silent until then: the ledger is asked
        self.is_checking = False  # a question because of silence is open
        self.lost_since_ms: int | None = None  # nobody has known the turn since then
        self.queued_due_ms: int | None = (
            None  # the next `chat.queued`; None = does not wait in burst
        )
        self.queued_at_ms = now_ms  # since when it waits in burst, if it does
        self.predicted: tuple[int, int] | None = None  # its first `chat.queued`: when, which wait
        self.replays = 0  # asked for and not yet written
        self.is_known = False  # accepted or found; else only the client says that it exists
        self.is_ended = False  # its terminal frame is sent, or part of the replay being written
        self.held: list[tuple[FrameHead, bytes]] = []
        self.held_bytes = 0

    def hold(self, head: FrameHead, data: bytes) -> None:
        """Keep a live frame until the replay is written."""
        self.held.append((head, data))
        self.held_bytes += len(data)

    def release(self) -> list[tuple[FrameHead, bytes]]:
        """The held frames above the last one sent, in the order they came; nothing stays held."""
        held, self.held, self.held_bytes = self.held, [], 0
        return [(head, data) for head, data in held if self.is_news(head)]

    def is_news(self, head: FrameHead) -> bool:
        """True when the frame is above the last one sent, or ends the turn from outside any attempt."""
        if head.is_terminal and head.attempt == 0:
            return True
        return (head.attempt, head.seq) > (self.attempt, self.last_seq)

    def claim(self, attempt: int | None, seq: int) -> None:
        """The client says that it has this frame."""
        self.claimed = max(self.claimed, (attempt or 0, seq))

    @property
    def furthest(self) -> tuple[int, int]:
        """Attempt and seq of the last frame that the client has, as far as is known."""
        return max(self.claimed, (self.attempt, self.last_seq))

    def is_ignored(self, end: FrameHead) -> bool:
        """True for an end below what the client has: the ledger lost what came in between, and the client ignores it.

        Asked before the end is sent. A client that claims to have just that frame has the end.
        """
        place = (end.attempt, end.seq)
        return end.attempt > 0 and (place <= (self.attempt, self.last_seq) or place < self.claimed)

    def note(self, attempt: int, seq: int, now_ms: int, check_after_ms: int) -> None:
        """A frame of the turn goes to the client."""
        if (attempt, seq) > (self.attempt, self.last_seq):
            self.attempt, self.last_seq = attempt, seq
        self.heard_at_ms = now_ms
        self.next_check_ms = now_ms + check_after_ms
        self.lost_since_ms = None
        self.queued_due_ms = None
