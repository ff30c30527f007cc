"""The turns that one connection follows: which frames go out now, which are held, and when the ledger is asked.

Pure: times are epoch milliseconds passed in; what is to be done is returned as actions.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from services.gateway.held_frames import HeldFrames
from services.gateway.session_io import (
    Accepted,
    Action,
    AskReplay,
    AskSend,
    NoteWait,
    Purpose,
    Refused,
    Replayed,
    Stopped,
    Write,
    WriteReplay,
)
from services.gateway.turn_view import FrameHead, TurnView, frame_head
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import TurnId
from shared.contracts.server_frames import (
    ChatAccepted,
    ChatQueued,
    ChatRejected,
    ChatResumed,
    ResponseFailed,
    encode_frame,
)

FIRST_QUEUED_AFTER_MS = 750
"""Under the promised second by more than the driver's tick; a turn that starts sooner needs no such frame."""
QUEUED_EVERY_MS = 1_000
FOLLOWED_LIMIT = 64
QueuedWait = Callable[[int], int]
"""How much longer, in ms, a turn waits in burst that was queued at that time, epoch ms."""
_DROPPED_LIMIT = 16


class FollowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in ms, each a setting of its name."""

    accepted_hold_ms: int
    """Frames that overtake `chat.accepted` wait for it no longer than this."""
    silent_turn_check_ms: int
    """After so long without a frame the ledger is asked about a turn."""
    lost_turn_after_ms: int
    """A turn that nobody has known for so long ends as failed."""


class FollowedTurns:
    """A connection's view of its turns. A turn is followed from `chat.accepted` or `chat.resume` to its end."""

    __slots__ = ("_dropped", "_held", "_limits", "_pending_sends", "_views")

    def __init__(self, limits: FollowLimits) -> None:
        self._limits = limits
        self._views: dict[str, TurnView] = {}
        self._held = HeldFrames(limits.accepted_hold_ms)
        self._pending_sends = 0
        self._dropped: dict[str, None] = {}  # refused as unavailable: their frames go nowhere

    @property
    def is_busy(self) -> bool:
        """True while a turn is followed or an answer to a `chat.send` is awaited."""
        return bool(self._views) or self._pending_sends > 0

    @property
    def is_full(self) -> bool:
        """True when no further turn may be followed."""
        return len(self._views) >= FOLLOWED_LIMIT

    @property
    def held_bytes(self) -> int:
        """Bytes of the frames that wait here instead of in the outbox."""
        size_bytes = self._held.size_bytes
        for view in self._views.values():
            size_bytes += view.held_bytes
        return size_bytes

    def turn_ids(self) -> list[TurnId]:
        """The turns that have not ended as far as this connection knows."""
        return [view.turn_id for view in self._views.values()]

    # frames of workers ---------------------------------------------------------------------------

    def push(self, data: bytes, now_ms: int) -> list[Action]:
        """A frame came for this connection."""
        head = frame_head(data)
        view = self._views.get(head.turn_id)
        if view is None:
            if head.turn_id in self._dropped:
                return []
            if self._pending_sends and head.turn_id:
                self._held.hold(head, data, now_ms)
                return []
            return [Write(data)]
        if view.is_ended:
            return []
        if view.replays:
            view.hold(head, data)
            return []
        noted = _judge_prediction(view, head, now_ms)
        return [self._write(view, head, data, now_ms), *noted]

    # sends ---------------------------------------------------------------------------------------

    def send(self, frame: ChatSend) -> list[Action]:
        """The client sends a message."""
        self._pending_sends += 1
        return [AskSend(frame)]

    def accepted(self, answer: Accepted, now_ms: int) -> list[Action]:
        """The message is a turn: `chat.accepted`, then what was held of it."""
        self._pending_sends -= 1
        self._dropped.pop(answer.turn_id, None)
        frame = ChatAccepted(
            message_id=answer.message_id,
            turn_id=answer.turn_id,
            path=answer.path,
            duplicate=answer.duplicate,
            position=answer.position or msgspec.UNSET,
            text=answer.masked_text or msgspec.UNSET,
        )
        actions: list[Action] = [Write(encode_frame(frame))]
        view = self._view(answer.turn_id, now_ms)
        view.is_known = True
        held, is_missed = self._held.take(answer.turn_id)
        if answer.duplicate:
            actions.append(self._ask(view, None, -1, "resume"))
        elif is_missed:
            actions.append(self._ask(view, view.attempt or None, view.last_seq, "check"))
        elif answer.path == "burst":
            view.queued_at_ms = now_ms
            view.queued_due_ms = now_ms + FIRST_QUEUED_AFTER_MS
        for head, data in held:
            if view.replays:
                view.hold(head, data)
            else:
                actions.append(self._write(view, head, data, now_ms))
        return actions + self._unheld()

    def refused(self, answer: Refused) -> list[Action]:
        """The message is no turn; frames of the turn that it might have become are dropped."""
        self._pending_sends -= 1
        if answer.turn_id is not None:
            self._held.take(answer.turn_id)
            self._dropped[answer.turn_id] = None
            if len(self._dropped) > _DROPPED_LIMIT:
                del self._dropped[next(iter(self._dropped))]
        frame = ChatRejected(
            message_id=answer.message_id,
            code=answer.code,
            message=answer.message,
            retry_after_ms=msgspec.UNSET
            if answer.retry_after_ms is None
            else answer.retry_after_ms,
            reason=answer.reason or msgspec.UNSET,
        )
        return [Write(encode_frame(frame)), *self._unheld()]

    def _unheld(self) -> list[Action]:
        return [] if self._pending_sends else [Write(data) for data in self._held.take_all()]

    # replays -------------------------------------------------------------------------------------

    def resume(
        self, turn_id: TurnId, attempt: int | None, after_seq: int, now_ms: int
    ) -> list[Action]:
        """The client asks for what it missed; live frames of the turn are held from now on."""
        self._dropped.pop(turn_id, None)
        view = self._view(turn_id, now_ms)
        view.claim(attempt, after_seq)
        return [self._ask(view, attempt, after_seq, "resume")]

    def follow(self, turn_id: TurnId, now_ms: int) -> None:
        """The turn exists and this connection is among its followers."""
        self._view(turn_id, now_ms).is_known = True

    def replayed(self, answer: Replayed, now_ms: int) -> list[Action]:
        """The log was read."""
        view = self._views.get(answer.turn_id)
        if view is None:
            return []
        if answer.purpose == "check":
            view.is_checking = False
            view.lost_since_ms = None
        frames = answer.frames
        if answer.purpose == "check" and not answer.is_stored:
            frames = _unsent(view, answer)
        if answer.purpose == "check" and not frames:
            self._judge_silence(view, answer, now_ms)
            return []
        view.is_known = True
        if answer.purpose == "check":
            view.replays += 1
        last_seq = answer.from_seq + len(answer.frames) - 1
        end = frame_head(answer.frames[-1]) if answer.complete else None
        self._note(view, answer.attempt, last_seq, now_ms, end)
        self._judge_silence(view, answer, now_ms)
        replay = WriteReplay(view.turn_id, frames)
        if answer.purpose == "check" and not answer.is_stored:
            return [replay]
        return [Write(_resumed(answer)), replay]

    def replay_written(self, turn_id: TurnId, now_ms: int) -> list[Action]:
        """The replay is out: live frames above it follow, unless another replay is under way."""
        view = self._views.get(turn_id)
        if view is None:
            return []
        view.replays -= 1
        if view.replays:
            return []
        if view.is_ended:
            del self._views[turn_id]
            return []
        return [self._write(view, head, data, now_ms) for head, data in view.release()]

    def not_replayed(self, turn_id: TurnId, now_ms: int) -> list[Action]:
        """The client's resume could not be answered: live frames flow again; the client resumes over their gap."""
        actions = self.replay_written(turn_id, now_ms)
        view = self._views.get(turn_id)
        if view is not None and not view.is_known and not view.replays:
            del self._views[turn_id]  # it may not exist, and must not keep the connection busy
        return actions

    def is_unknown(self, turn_id: TurnId) -> bool:
        """True when the turn was never seen here, so that only the client claims that it exists."""
        view = self._views.get(turn_id)
        return view is None or not view.is_known

    def forget(self, turn_id: TurnId) -> None:
        """Nobody knows the turn that the client wants to resume."""
        self._views.pop(turn_id, None)

    def check_failed(self, turn_id: TurnId) -> None:
        """The ledger could not be asked about a silent turn: that says nothing about the turn."""
        view = self._views.get(turn_id)
        if view is not None:
            view.is_checking = False
            view.lost_since_ms = None

    def check_found_nothing(self, turn_id: TurnId, now_ms: int) -> list[Action]:
        """Nobody knows a silent turn: after a while the user is told, for nothing will come any more."""
        view = self._views.get(turn_id)
        if view is None:
            return []
        view.is_checking = False
        if view.lost_since_ms is None:
            view.lost_since_ms = now_ms
        lost_at_ms = view.lost_since_ms + self._limits.lost_turn_after_ms
        if now_ms < lost_at_ms:
            view.next_check_ms = min(view.next_check_ms, lost_at_ms)
            return []
        del self._views[turn_id]
        frame = ResponseFailed(
            turn_id=turn_id,
            attempt=0,
            seq=0,
            code="internal",
            message="This turn was lost. Please send the message again.",
            retryable=True,
            partial=view.last_seq > 0,
        )
        return [Write(encode_frame(frame))]

    def stopped(self, answer: Stopped, now_ms: int) -> list[Action]:
        """The turn has ended: its terminal frame, once more if the client had it before."""
        view = self._views.get(answer.turn_id)
        if view is None:
            return [Write(answer.outcome)]
        return [self._write(view, frame_head(answer.outcome), answer.outcome, now_ms)]

    # time ----------------------------------------------------------------------------------------

    def tick(self, now_ms: int, wait_ms: QueuedWait) -> list[Action]:
        """Whatever is due: `chat.queued`, a question about a silent turn."""
        self._held.expire(now_ms)
        actions: list[Action] = []
        for view in self._views.values():
            if view.queued_due_ms is not None and now_ms >= view.queued_due_ms:
                view.queued_due_ms = now_ms + QUEUED_EVERY_MS
                left_ms = wait_ms(view.queued_at_ms)
                view.predicted = view.predicted or (now_ms, left_ms)
                queued = ChatQueued(turn_id=view.turn_id, wait_ms=left_ms)
                actions.append(Write(encode_frame(queued)))
            if now_ms >= view.next_check_ms and not view.is_checking and not view.replays:
                attempt, last_seq = view.furthest
                actions.append(self._ask(view, attempt or None, last_seq, "check"))
                view.next_check_ms = now_ms + self._limits.silent_turn_check_ms
        return actions

    # parts ---------------------------------------------------------------------------------------

    def _view(self, turn_id: TurnId, now_ms: int) -> TurnView:
        view = self._views.get(turn_id)
        if view is None:
            view = TurnView(turn_id, now_ms, self._limits.silent_turn_check_ms)
            self._views[turn_id] = view
        return view

    def _ask(
        self, view: TurnView, attempt: int | None, after_seq: int, purpose: Purpose
    ) -> AskReplay:
        if purpose == "check":
            view.is_checking = True
        else:
            view.replays += 1
        return AskReplay(view.turn_id, attempt, after_seq, purpose)

    def _write(self, view: TurnView, head: FrameHead, data: bytes, now_ms: int) -> Write:
        self._note(view, head.attempt, head.seq, now_ms, head if head.is_terminal else None)
        if view.is_ended:
            self._views.pop(view.turn_id, None)
        return Write(data)

    def _note(
        self, view: TurnView, attempt: int, seq: int, now_ms: int, end: FrameHead | None
    ) -> None:
        """Frames up to (attempt, seq) go to the client, with the end of the turn if there is one."""
        is_ignored = end is not None and view.is_ignored(end)
        view.note(attempt, seq, now_ms, self._limits.silent_turn_check_ms)
        if is_ignored:
            view.next_check_ms = now_ms  # answered above what the client has, see Replaying
        elif end is not None:
            view.is_ended = True

    def _judge_silence(self, view: TurnView, answer: Replayed, now_ms: int) -> None:
        if not answer.is_queued or view.last_seq >= 0:
            view.queued_due_ms = None
        elif view.queued_due_ms is None:
            view.queued_at_ms = answer.queued_at_ms or now_ms
            view.queued_due_ms = now_ms


def _judge_prediction(view: TurnView, head: FrameHead, now_ms: int) -> list[Action]:
    if view.predicted is None or head.seq != 0 or head.is_terminal:
        return []
    (told_at_ms, predicted_ms), view.predicted = view.predicted, None
    return [NoteWait(predicted_ms, now_ms - told_at_ms)]


def _unsent(view: TurnView, answer: Replayed) -> tuple[bytes, ...]:
    """The frames of a check that did not come by push while the ledger was asked."""
    if answer.complete and answer.attempt == 0:
        return answer.frames
    if answer.attempt != view.attempt:
        return answer.frames if answer.attempt > view.attempt else ()
    return answer.frames[max(0, view.last_seq + 1 - answer.from_seq) :]


def _resumed(answer: Replayed) -> bytes:
    return encode_frame(
        ChatResumed(
            turn_id=answer.turn_id,
            attempt=answer.attempt,
            from_seq=answer.from_seq,
            complete=answer.complete,
        )
    )
