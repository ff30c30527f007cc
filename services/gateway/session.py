"""The session machine: one connection's half of PROTOCOL §1 to §5, without I/O.

Frames, answers and the time (epoch milliseconds) go in; actions come out, to be performed in their order. It keeps a
view of its turns, never the truth. After a Close nothing more comes out. Not thread-safe; never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from services.gateway.followed_turns import FollowedTurns, FollowLimits, QueuedWait
from services.gateway.frames_in import InputLimits, decode_client_frame
from services.gateway.lifetime import (
    CLOSE_LEAVING,
    CLOSE_PROTOCOL_ERRORS,
    CLOSE_REPLACED,
    Lifetime,
    LifetimeLimits,
    slow_actions,
)
from services.gateway.rates import FaultWindow, TokenBucket
from services.gateway.session_io import (
    Accepted,
    Action,
    Answer,
    AskCancel,
    AskHistory,
    Close,
    CouldNotAsk,
    HistoryPage,
    NotFound,
    Refused,
    Replayed,
    Stopped,
    Stopping,
    Write,
)
from shared.contracts.client_frames import (
    AnyClientFrame,
    ChatCancel,
    ChatHistoryRequest,
    ChatResume,
    ChatSend,
    Ping,
)
from shared.contracts.identifiers import ConnectionId, SessionId, TurnId
from shared.contracts.server_frames import (
    ChatRejected,
    ErrorCode,
    Pong,
    ProtocolError,
    RunningTurn,
    SessionReady,
    encode_frame,
)

_FAULT_WINDOW_MS = 60_000


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that bounds a connection; one instance serves all of them."""

    input: InputLimits
    turns: FollowLimits
    lifetime: LifetimeLimits
    heartbeat_ms: int
    protocol_errors_per_min: int
    frames_per_s: int


class Session:
    """One connection, from `session.ready` to its close."""

    __slots__ = (
        "_bucket",
        "_faults",
        "_is_closed",
        "_limits",
        "connection_id",
        "lifetime",
        "turns",
    )

    def __init__(
        self,
        limits: SessionLimits,
        connection_id: ConnectionId,
        opened_at_ms: int,
        expires_at_ms: int | None,
    ) -> None:
        self.connection_id = connection_id
        self.turns = FollowedTurns(limits.turns)
        self.lifetime = Lifetime(limits.lifetime, opened_at_ms, expires_at_ms)
        self._limits = limits
        self._faults = FaultWindow(limits.protocol_errors_per_min, _FAULT_WINDOW_MS)
        self._bucket: TokenBucket | None = None
        if limits.frames_per_s:
            self._bucket = TokenBucket(limits.frames_per_s, limits.frames_per_s, opened_at_ms)
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """True after a Close."""
        return self._is_closed

    # the client ----------------------------------------------------------------------------------

    def ready(self, session_id: SessionId, running: Sequence[RunningTurn]) -> list[Action]:
        """The handshake is done: the first frame."""
        frame = SessionReady(
            connection_id=self.connection_id,
            session_id=session_id,
            heartbeat_ms=self._limits.heartbeat_ms,
            idle_timeout_ms=self._limits.lifetime.idle_close_ms,
            running=tuple(running),
        )
        return [Write(encode_frame(frame))]

    def read_delay_ms(self, now_ms: int) -> int:
        """Count a frame of the client: how long to wait before reading the next one, 0 = not at all.

        Waiting is the answer to a flood: nothing is refused, and TCP holds the sender back.
        """
        return self._bucket.owe(now_ms) if self._bucket is not None else 0

    def receive_text(self, text: str, now_ms: int) -> list[Action]:
        """A text message of the client."""
        if self._is_closed:
            return []
        frame = decode_client_frame(text, self._limits.input)
        if isinstance(frame, ProtocolError):
            return self._fault(frame, now_ms)
        if not isinstance(frame, Ping):
            self.lifetime.touch(now_ms)
        if isinstance(frame, ChatRejected):
            return [Write(encode_frame(frame))]
        return self._understood(frame, now_ms)

    def receive_binary(self, now_ms: int) -> list[Action]:
        """A binary message of the client."""
        if self._is_closed:
            return []
        message = "Frames are JSON in text messages."
        return self._fault(ProtocolError(code="binary_not_supported", message=message), now_ms)

    def _understood(self, frame: AnyClientFrame, now_ms: int) -> list[Action]:
        match frame:
            case ChatSend():
                return self.turns.send(frame)
            case ChatResume():
                if self.turns.is_full:
                    return [_error("unavailable", "Too many turns at once.", frame.turn_id)]
                return self.turns.resume(frame.turn_id, frame.attempt, frame.after_seq, now_ms)
            case ChatCancel():
                return [AskCancel(frame.turn_id)]
            case ChatHistoryRequest():
                return [AskHistory(frame.before, frame.limit)]
            case Ping():
                return [Write(encode_frame(Pong(nonce=frame.nonce, at_ms=now_ms)))]
            case _:
                assert_never(frame)

    def _fault(self, frame: ProtocolError, now_ms: int) -> list[Action]:
        actions: list[Action] = [Write(encode_frame(frame))]
        if self._faults.add(now_ms):
            actions.append(_error("too_many_errors", "Too many frames were not understood."))
            actions.append(Close(CLOSE_PROTOCOL_ERRORS, "too many protocol errors"))
        return self._out(actions)

    # answers -------------------------------------------------------------------------------------

    def answered(self, answer: Answer, now_ms: int) -> list[Action]:
        """What an Ask action brought. After a Close it still counts: what is followed must be unfollowed."""
        actions = self._answered(answer, now_ms)
        return [] if self._is_closed else actions

    def _answered(self, answer: Answer, now_ms: int) -> list[Action]:
        match answer:
            case Accepted():
                return self.turns.accepted(answer, now_ms)
            case Refused():
                return self.turns.refused(answer)
            case Replayed():
                return self.turns.replayed(answer, now_ms)
            case NotFound():
                return self._not_found(answer, now_ms)
            case CouldNotAsk():
                return self._could_not_ask(answer, now_ms)
            case Stopping():
                self.turns.follow(answer.turn_id, now_ms)
                return []
            case Stopped():
                return self.turns.stopped(answer, now_ms)
            case HistoryPage():
                return [Write(encode_frame(answer.frame))]
            case _:
                assert_never(answer)

    def _not_found(self, answer: NotFound, now_ms: int) -> list[Action]:
        if answer.purpose == "check":
            return self.turns.check_found_nothing(answer.turn_id, now_ms)
        if answer.purpose == "resume":
            if not self.turns.is_unknown(answer.turn_id):
                # Lost by the ledger while it ran: its producer enters it again, or the silence rule ends it.
                return self.turns.not_replayed(answer.turn_id, now_ms)
            self.turns.forget(answer.turn_id)
        return [_error("unknown_turn", "No such turn.", answer.turn_id)]

    def _could_not_ask(self, answer: CouldNotAsk, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        if answer.turn_id is not None:
            if answer.purpose == "check":
                self.turns.check_failed(answer.turn_id)
                return []
            if answer.purpose == "resume":
                actions = self.turns.not_replayed(answer.turn_id, now_ms)
        sentence = "This could not be done just now. Please try again."
        return [_error("unavailable", sentence, answer.turn_id), *actions]

    def replay_written(self, turn_id: TurnId, now_ms: int) -> list[Action]:
        """A WriteReplay is done."""
        return [] if self._is_closed else self.turns.replay_written(turn_id, now_ms)

    # workers, time and the process ---------------------------------------------------------------

    def push(self, data: bytes, now_ms: int) -> list[Action]:
        """A frame of a worker for this connection."""
        return [] if self._is_closed else self.turns.push(data, now_ms)

    def tick(self, now_ms: int, wait_ms: QueuedWait) -> list[Action]:
        """Time has passed. Call at `due_at_ms`, and several times a second while `is_busy`."""
        if self._is_closed:
            return []
        ending = self.lifetime.tick(now_ms, self.turns.is_busy)
        return self._out(ending) + self.turns.tick(now_ms, wait_ms)

    @property
    def is_busy(self) -> bool:
        """True while turns are followed."""
        return self.turns.is_busy

    @property
    def due_at_ms(self) -> int:
        """When an idle connection next needs a tick."""
        return self.lifetime.due_at_ms

    def drain(self, now_ms: int, reconnect_after_ms: int) -> list[Action]:
        """The process is leaving."""
        return [] if self._is_closed else self.lifetime.drain(now_ms, reconnect_after_ms)

    def leave(self) -> list[Action]:
        """The process exits now."""
        return self._out([Close(CLOSE_LEAVING, "drain")])

    def replace(self) -> list[Action]:
        """The Management API asks for the close."""
        return self._out([Close(CLOSE_REPLACED, "closed by the service")])

    def too_slow(self) -> list[Action]:
        """The outbox is full or the reader stands still."""
        return self._out(slow_actions())

    def _out(self, actions: list[Action]) -> list[Action]:
        if self._is_closed:
            return []
        self._is_closed = any(isinstance(action, Close) for action in actions)
        return actions


def _error(code: ErrorCode, message: str, turn_id: TurnId | None = None) -> Write:
    named = msgspec.UNSET if turn_id is None else turn_id
    return Write(encode_frame(ProtocolError(code=code, message=message, turn_id=named)))
