"""A connection over a socket in memory: back-pressure, pacing and the order of commands."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from services.gateway.connection import COMMANDS_LIMIT, Connection, Peer
from services.gateway.connections import Connections
from services.gateway.followed_turns import FollowLimits
from services.gateway.frames_in import InputLimits
from services.gateway.lifetime import LifetimeLimits
from services.gateway.outbox import Outbox
from services.gateway.queue_waits import QueueWaits
from services.gateway.session import Session, SessionLimits
from services.gateway.session_io import Accepted, Answer, Ask, AskReplay, AskSend, Replayed
from shared.contracts.identifiers import (
    ConnectionId,
    OwnerId,
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    UserId,
)
from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushStatus
from shared.policy.queue_forecast import QueueForecast
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock, settle

TURN = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
SESSION = SessionRef(TenantId("t"), UserId("u"), SessionId("s"))
LIMITS = SessionLimits(
    input=InputLimits(message_bytes=1_000, metadata_bytes=100),
    turns=FollowLimits(
        accepted_hold_ms=3_000, silent_turn_check_ms=3_000, lost_turn_after_ms=10_000
    ),
    lifetime=LifetimeLimits(idle_close_ms=300_000, max_age_ms=600_000),
    heartbeat_ms=25_000,
    protocol_errors_per_min=20,
    frames_per_s=10,
)


class FakeSocket:
    """A socket whose reader takes bytes only when told; writable below `high` unsent bytes."""

    def __init__(self, high: int = 100) -> None:
        self.sent: list[bytes] = []
        self.unsent = 0
        self.closed: tuple[int, str] | None = None
        self.is_reading = True
        self._high = high
        self._callback: Callable[[], None] = lambda: None

    def send_frame(self, data: bytes) -> None:
        self.sent.append(data)
        if not self.is_reading:
            self.unsent += len(data)

    def close_now(self, code: int, reason: str) -> None:
        self.closed = self.closed or (code, reason)

    def is_writable(self) -> bool:
        return self.unsent < self._high

    def unsent_bytes(self) -> int:
        return self.unsent

    def on_writable(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def read_all(self) -> None:
        self.unsent = 0
        self._callback()


class Performer:
    """Answers commands from `answers`, each when its gate is open; remembers their order."""

    def __init__(self) -> None:
        self.commands: list[Ask] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[Ask], Answer] = self._default

    async def __call__(self, _: SessionRef, __: Follower, command: Ask) -> Answer:
        self.commands.append(command)
        await self.gate.wait()
        return self.answer(command)

    def _default(self, command: Ask) -> Answer:
        assert isinstance(command, AskSend)
        return Accepted(message_id=command.frame.message_id, turn_id=TURN, path="inline")


class World:
    def __init__(self, limit_bytes: int = 1_000) -> None:
        self.clock = FakeClock()
        self.socket = FakeSocket()
        self.performer = Performer()
        self.metrics = io.StringIO()
        metrics = Metrics("test", "gateway", self.clock, self.metrics)
        self.waits = QueueWaits(QueueForecast(10), self.clock, metrics)
        self.connections = Connections(self.clock, self.waits)
        self.connection = Connection(
            session=Session(LIMITS, ConnectionId("c"), self.clock.now_ms(), None),
            session_ref=SESSION,
            follower=Follower(ConnectionId("c"), "http://g", OwnerId("o")),
            peer=Peer("1.2.3.4", "agent"),
            outbox=Outbox(limit_bytes, stuck_ms=10_000),
            socket=self.socket,
            perform=self.performer,
            clock=self.clock,
            on_change=self.connections.on_change,
        )
        self.connections.add(self.connection)

    def send(self, message_id: str = "m1") -> None:
        frame = {"type": "chat.send", "message_id": message_id, "text": "hi"}
        self.connection.receive(json.dumps(frame))

    def types(self) -> list[str]:
        return [json.loads(data)["type"] for data in self.socket.sent]


def delta(seq: int, size: int = 10) -> bytes:
    frame = {"type": "chat.response.delta", "turn_id": TURN, "attempt": 1, "seq": seq}
    return json.dumps({**frame, "delta": "x" * size}).encode()


async def test_frames_wait_while_the_socket_is_full_and_leave_in_order() -> None:
    world = World()
    world.socket.is_reading = False
    frames = [delta(seq) for seq in range(4)]
    assert [world.connection.deliver(frame) for frame in frames] == [PushStatus.SENT] * 4
    assert world.socket.sent == frames[:1]
    assert world.connection.outbox_bytes == sum(map(len, frames))
    world.socket.read_all()
    world.socket.read_all()
    world.socket.read_all()
    world.socket.read_all()
    assert world.socket.sent == frames


async def test_half_full_refuses_pushes_without_harming_what_waits() -> None:
    world = World()
    world.socket.is_reading = False
    statuses = []
    while PushStatus.THROTTLED not in statuses:
        statuses.append(world.connection.deliver(delta(len(statuses))))
    assert 500 <= world.connection.outbox_bytes < 1_000
    assert world.socket.closed is None
    world.socket.is_reading = True
    world.socket.read_all()
    assert len(world.socket.sent) == len(statuses) - 1
    assert world.connection.deliver(delta(99)) == PushStatus.SENT


@pytest.mark.case("B-19")
async def test_a_full_outbox_ends_the_connection_resumable() -> None:
    world = World(limit_bytes=300)
    world.socket.is_reading = False
    for number in range(9):  # answers to the client's own frames are not refused
        world.connection.receive(json.dumps({"type": "ping", "nonce": "x" * 50 + str(number)}))
    assert world.socket.closed == (4409, "too slow, resume")
    assert world.types()[-1] == "session.goaway"
    assert world.connection.deliver(delta(1)) == PushStatus.GONE


async def test_a_reader_that_stands_still_is_closed_by_the_ticks() -> None:
    world = World()
    ticking = asyncio.create_task(world.connections.run())
    world.socket.is_reading = False
    world.connection.deliver(delta(1))
    await world.clock.advance(9)
    assert world.socket.closed is None
    await world.clock.advance(2)
    assert world.socket.closed == (4409, "too slow, resume")
    ticking.cancel()


async def test_a_bug_in_a_machine_ends_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("bug")

    world = World()
    ticking = asyncio.create_task(world.connections.run())
    world.send()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "tick", crash)
        await world.clock.advance(1)
    assert not ticking.done()
    assert world.socket.closed == (1011, "internal error")
    ticking.cancel()

    world = World()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "push", crash)
        assert world.connections.deliver(ConnectionId("c"), b"{}") == PushStatus.GONE
    assert world.socket.closed == (1011, "internal error")

    world = World()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "answered", crash)
        world.send()
        await settle()
    assert world.socket.closed == (1011, "internal error")
    assert await world.connection.finish() == []


async def test_an_idle_connection_is_looked_at_once_a_second() -> None:
    world = World()
    ticking = asyncio.create_task(world.connections.run())
    await world.clock.advance(299)
    assert world.socket.closed is None
    await world.clock.advance(2)
    assert world.socket.closed == (4408, "idle")
    ticking.cancel()


async def test_commands_run_one_after_the_other_and_hold_back_the_reader() -> None:
    world = World()
    world.performer.gate.clear()
    for number in range(COMMANDS_LIMIT + 1):
        world.send(f"m{number}")
        await settle()
    assert len(world.performer.commands) == 1
    reading = asyncio.create_task(world.connection.ready_to_read())
    await settle()
    assert not reading.done()
    world.performer.gate.set()
    await settle()
    assert reading.done()
    sent = [
        command.frame.message_id
        for command in world.performer.commands
        if isinstance(command, AskSend)
    ]
    assert sent == [f"m{number}" for number in range(COMMANDS_LIMIT + 1)]
    assert world.types() == ["chat.accepted"] * (COMMANDS_LIMIT + 1)


async def test_a_flood_waits_for_its_rate() -> None:
    world = World()
    for _ in range(10):
        await world.connection.ready_to_read()
    waiting = asyncio.create_task(world.connection.ready_to_read())
    await settle()
    assert not waiting.done()
    await world.clock.advance(0.1)
    assert waiting.done()


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        ({"type": "chat.send", "message_id": "m1", "text": "x"}, "chat.rejected"),
        ({"type": "chat.resume", "turn_id": TURN}, "error"),
        ({"type": "chat.cancel", "turn_id": TURN}, "error"),
        ({"type": "chat.history"}, "error"),
    ],
)
async def test_a_bug_in_a_command_is_answered_and_the_connection_goes_on(
    frame: dict[str, Any], answer: str
) -> None:
    world = World()

    def crash(_: Ask) -> Answer:
        raise RuntimeError("bug")

    world.performer.answer = crash
    world.connection.receive(json.dumps(frame))
    await settle()
    assert world.types() == [answer]
    assert b"unavailable" in world.socket.sent[0]
    assert not world.connection.session.is_busy


async def resume(world: World, frames: tuple[bytes, ...]) -> None:
    world.performer.answer = lambda command: Replayed(
        turn_id=TURN, purpose="resume", attempt=1, from_seq=0, frames=frames, complete=False
    )
    world.connection.receive(json.dumps({"type": "chat.resume", "turn_id": TURN}))
    await settle()


async def test_a_replay_larger_than_the_outbox_goes_at_the_readers_pace() -> None:
    world = World()
    world.socket.is_reading = False
    log = tuple(delta(seq, 200) for seq in range(30))
    await resume(world, log)
    assert world.connection.deliver(delta(30)) in (PushStatus.SENT, PushStatus.THROTTLED)
    for _ in range(100):
        assert world.connection.outbox_bytes < 1_000
        world.socket.read_all()
        await settle()
    assert world.socket.closed is None
    assert world.socket.sent[1:31] == list(log)


async def test_a_replay_ends_with_its_connection() -> None:
    world = World()
    world.socket.is_reading = False
    await resume(world, tuple(delta(seq, 200) for seq in range(30)))
    assert await world.connection.finish() == [TURN]
    assert world.connection.deliver(delta(1)) == PushStatus.GONE


async def test_finishing_waits_for_the_commands_and_names_late_turns() -> None:
    world = World()
    world.performer.gate.clear()
    world.send()
    await settle()
    world.connection.receive(json.dumps({"type": "chat.resume", "turn_id": "other"}))
    finishing = asyncio.create_task(world.connection.finish())
    await settle()
    assert not finishing.done()
    world.performer.gate.set()
    await settle()
    # The resume was still waiting: a reader that is gone needs no replay, but is unfollowed all the same.
    assert sorted(finishing.result()) == ["other", TURN]
    assert not any(isinstance(command, AskReplay) for command in world.performer.commands)
    assert [ref.turn_id for ref in world.connection.turn_refs(finishing.result())] == [TURN]


async def test_what_was_promised_goes_out_before_a_close() -> None:
    world = World()
    world.socket.is_reading = False
    world.connection.deliver(delta(1))
    world.connection.deliver(delta(2))
    world.connection.disconnect()
    assert world.socket.sent == [delta(1), delta(2)]
    assert world.socket.closed == (4000, "closed by the service")


async def test_connections_are_counted_by_user_and_removed_once() -> None:
    world = World()
    user = (TenantId("t"), UserId("u"))
    assert world.connections.of_user(*user) == 1
    waiting = asyncio.create_task(world.connections.wait_until_empty())
    await settle()
    assert not waiting.done()
    world.connections.remove(world.connection)
    world.connections.remove(world.connection)
    await settle()
    assert waiting.done()
    assert world.connections.of_user(*user) == 0
    assert world.connections.deliver(ConnectionId("c"), b"{}") == PushStatus.GONE


async def test_a_wait_that_was_predicted_is_recorded_when_the_turn_starts() -> None:
    world = World()
    world.performer.answer = lambda command: Accepted(
        message_id=command.frame.message_id, turn_id=TURN, path="burst"
    )
    world.send()
    await settle()
    world.clock.skip(1)
    world.connection.tick(world.waits)
    world.clock.skip(2)
    started = {"type": "chat.response.started", "turn_id": TURN, "attempt": 1, "seq": 0}
    world.connection.deliver(json.dumps(started).encode())
    assert world.types() == ["chat.accepted", "chat.queued", "chat.response.started"]
    assert '"QueuedWait":2000' in world.metrics.getvalue()
