"""One open socket: performs what its session machine decides, and moves frames through its outbox."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

import msgspec

from services.gateway.lifetime import CLOSE_BROKEN, CLOSE_SLOW
from services.gateway.outbox import Outbox
from services.gateway.queue_waits import QueueWaits
from services.gateway.session import Session
from services.gateway.session_io import (
    Action,
    Answer,
    Ask,
    AskCancel,
    AskHistory,
    AskReplay,
    AskSend,
    Close,
    Command,
    CouldNotAsk,
    NoteWait,
    Refused,
    Write,
    WriteReplay,
)
from services.gateway.socket_protocol import Socket
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef, TurnId, TurnRef, turn_of
from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushStatus
from shared.telemetry import Log

COMMANDS_LIMIT = 8
"""Commands of one client that wait; above it the next frame is not read."""

_log = Log("connection")

Perform = Callable[[SessionRef, Follower, Ask], Awaitable[Answer]]
"""Carries out an Ask command for a connection; raises nothing but bugs and cancellation."""


class Peer(msgspec.Struct, frozen=True):
    """Who is at the other end, as far as the Management API may say."""

    address: str
    user_agent: str


class Connection:
    """A socket with its session. Commands run one after the other, in the order of their frames."""

    __slots__ = (
        "__weakref__",
        "_clock",
        "_commands",
        "_is_ticking",
        "_on_change",
        "_outbox",
        "_perform",
        "_room",
        "_socket",
        "_waits",
        "_worker",
        "connected_at_ms",
        "follower",
        "peer",
        "session",
        "session_ref",
    )

    def __init__(
        self,
        *,
        session: Session,
        session_ref: SessionRef,
        follower: Follower,
        peer: Peer,
        outbox: Outbox,
        socket: Socket,
        perform: Perform,
        clock: Clock,
        on_change: Callable[[Connection, bool], None],
    ) -> None:
        self.session = session
        self.session_ref = session_ref
        self.follower = follower
        self.peer = peer
        self.connected_at_ms = clock.now_ms()
        self._on_change = on_change
        self._is_ticking = False
        self._outbox = outbox
        self._socket = socket
        self._perform = perform
        self._clock = clock
        self._waits: QueueWaits | None = None  # as of the last tick; only a tick predicts a wait
        self._commands: deque[Command] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None  # set when the outbox, or the commands, have room
        socket.on_writable(self._flush)

    @property
    def last_active_at_ms(self) -> int:
        """When the user last did something, epoch ms."""
        return self.session.lifetime.last_active_at_ms

    @property
    def outbox_bytes(self) -> int:
        """Bytes on their way to the client."""
        return self._outbox.size_bytes + self.session.turns.held_bytes

    # in ------------------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> PushStatus:
        """A frame of the Management API. Never waits."""
        session = self.session
        if session.is_closed:
            return PushStatus.GONE
        now_ms = self._clock.now_ms()
        self._observe(now_ms)
        if not self._outbox.has_room(session.turns.held_bytes):
            return PushStatus.THROTTLED
        self.run(session.push(data, now_ms))
        return PushStatus.SENT

    def receive(self, message: str | bytes) -> None:
        """A message of the client."""
        now_ms = self._clock.now_ms()
        self._observe(now_ms)
        if isinstance(message, str):
            self.run(self.session.receive_text(message, now_ms))
        else:
            self.run(self.session.receive_binary(now_ms))

    async def ready_to_read(self) -> None:
        """Wait until the client's next frame may be read."""
        delay_ms = self.session.read_delay_ms(self._clock.now_ms())
        if delay_ms:
            await self._clock.sleep(delay_ms / 1_000)
        while self._commands is not None and len(self._commands) >= COMMANDS_LIMIT:
            await self._wait_for_room()

    def tick(self, waits: QueueWaits) -> None:
        """Time has passed."""
        self._waits = waits
        now_ms = self._clock.now_ms()
        self._observe(now_ms)
        if self._outbox.is_stuck(now_ms):
            self._cut_off("stuck")
        else:
            self.run(self.session.tick(now_ms, waits.wait_ms))

    def disconnect(self) -> None:
        """The Management API closes the connection."""
        self.run(self.session.replace())

    def drain(self, reconnect_after_ms: int) -> None:
        """The process is leaving: say so."""
        self.run(self.session.drain(self._clock.now_ms(), reconnect_after_ms))

    def leave(self) -> None:
        """The process exits now."""
        self.run(self.session.leave())

    def break_off(self, error: Exception) -> None:
        """A bug in this connection's machine: it ends alone."""
        _log.exception("connection.broken", error, connection_id=self.follower.connection_id)
        self.session.leave()
        self._socket.close_now(CLOSE_BROKEN, "internal error")
        self._wake()

    @property
    def needs_ticks(self) -> bool:
        """True while ticks may bring something before `session.due_at_ms`."""
        return self.session.is_busy or not self._outbox.is_empty or self._socket.unsent_bytes() > 0

    # out -----------------------------------------------------------------------------------------

    def run(self, actions: Sequence[Action]) -> None:
        """Perform actions of the session in their order."""
        for action in actions:
            if isinstance(action, Write):
                self._write(action.data)
            elif isinstance(action, Close):
                self._close(action)
            elif isinstance(action, NoteWait):
                if self._waits is not None:
                    self._waits.note(action)
            else:
                self._enqueue(action)
        needs_ticks = self.needs_ticks
        if needs_ticks != self._is_ticking:
            self._is_ticking = needs_ticks
            self._on_change(self, needs_ticks)

    async def finish(self) -> list[TurnId]:
        """The socket is gone: let the commands end, each within its own deadlines; the turns still followed."""
        self.session.leave()
        self._outbox.clear()
        self._wake()
        if self._worker is not None:
            await self._worker
        return self.session.turns.turn_ids()

    def turn_refs(self, turn_ids: Sequence[TurnId]) -> list[TurnRef]:
        """The turns under this caller's identity."""
        refs = (turn_of(self.session_ref, turn_id) for turn_id in turn_ids)
        return [ref for ref in refs if ref is not None]

    def _write(self, data: bytes) -> None:
        if self._outbox.is_empty and self._socket.is_writable():
            self._send(data)
            return
        self._outbox.put(data)
        if self._outbox.is_full:
            self._cut_off("full")

    def _send(self, data: bytes) -> None:
        self._socket.send_frame(data)
        self._outbox.sent(data)

    def _flush(self) -> None:
        while not self._outbox.is_empty and self._socket.is_writable():
            self._send(self._outbox.pop())
        self._observe(self._clock.now_ms())
        self._wake()

    def _close(self, action: Close) -> None:
        while not self._outbox.is_empty:  # bounded: what was promised goes out before the close
            self._send(self._outbox.pop())
        self._socket.close_now(action.code, action.reason)
        self._wake()
        _log.info(
            "connection.closed_by_us",
            connection_id=self.follower.connection_id,
            code=action.code,
            reason=action.reason,
        )

    def _cut_off(self, why: str) -> None:
        _log.info(
            "connection.too_slow",
            connection_id=self.follower.connection_id,
            code=CLOSE_SLOW,
            why=why,
            outbox_bytes=self._outbox.size_bytes,
        )
        self._outbox.clear()
        for action in self.session.too_slow():
            if isinstance(action, Write):
                self._socket.send_frame(action.data)
            elif isinstance(action, Close):
                self._close(action)

    def _observe(self, now_ms: int) -> None:
        self._outbox.observe(self._socket.unsent_bytes(), now_ms)

    # commands ------------------------------------------------------------------------------------

    def _enqueue(self, command: Command) -> None:
        if self._commands is None:
            self._commands = deque()
        if isinstance(command, WriteReplay):
            self._commands.appendleft(command)  # belongs to the answer just given
        else:
            self._commands.append(command)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._commands:
                command = self._commands.popleft()
                await self._carry_out(command)
                self._wake()
        finally:
            self._commands = None
            self._worker = None

    async def _carry_out(self, command: Command) -> None:
        try:
            if isinstance(command, WriteReplay):
                await self._write_replay(command)
            else:
                await self._ask(command)
        except Exception as error:  # noqa: BLE001 the remaining commands, a cancel perhaps, still count
            self.break_off(error)

    async def _ask(self, command: Ask) -> None:
        if isinstance(command, AskReplay) and self.session.is_closed:
            return
        try:
            answer = await self._perform(self.session_ref, self.follower, command)
        except Exception as error:  # noqa: BLE001 a bug in one command must not end the connection
            _log.exception(
                "command.failed",
                error,
                connection_id=self.follower.connection_id,
                command=type(command).__name__,
            )
            answer = _answer_to_bug(command)
        self.run(self.session.answered(answer, self._clock.now_ms()))

    async def _write_replay(self, replay: WriteReplay) -> None:
        for frame in replay.frames:
            self._observe(self._clock.now_ms())
            while not self._outbox.has_room() and not self.session.is_closed:
                await self._wait_for_room()
            if self.session.is_closed:
                return
            self._write(frame)
        self.run(self.session.replay_written(replay.turn_id, self._clock.now_ms()))

    async def _wait_for_room(self) -> None:
        if self._room is None:
            self._room = asyncio.Event()
        await self._room.wait()

    def _wake(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


def _answer_to_bug(command: Ask) -> Answer:
    """The machine counts on an answer to each question, whatever went wrong."""
    match command:
        case AskSend():
            return Refused(
                message_id=command.frame.message_id,
                code="unavailable",
                message="The message could not be taken. Please send it again.",
            )
        case AskReplay():
            return CouldNotAsk(command.turn_id, command.purpose)
        case AskCancel():
            return CouldNotAsk(command.turn_id, "cancel")
        case AskHistory():
            return CouldNotAsk(None, "history")
        case _:
            assert_never(command)
