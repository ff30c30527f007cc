"""The connections of this process, by id: who receives what the Management API is given."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from services.gateway.connection import Connection, Peer
from services.gateway.queue_waits import QueueWaits
from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId, TenantId, UserId
from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushStatus

BUSY_TICK_MS = 200
"""How often connections with turns or unsent bytes are looked at; the others are asked once a second."""
_QUIET_EVERY_TICKS = 5


class Receiver(Protocol):
    """Something with a connection id: a socket, or an HTTP request that waits for its reply."""

    @property
    def follower(self) -> Follower:
        """Its entry in registry and followers."""
        ...

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        ...

    @property
    def connected_at_ms(self) -> int:
        """Epoch milliseconds."""
        ...

    @property
    def last_active_at_ms(self) -> int:
        """Epoch milliseconds."""
        ...

    @property
    def outbox_bytes(self) -> int:
        """Bytes on their way to the client."""
        ...

    def deliver(self, data: bytes) -> PushStatus:
        """Take one frame, or say why not: GONE or THROTTLED. Never waits."""
        ...

    def disconnect(self) -> None:
        """End it on behalf of the service."""
        ...

    def break_off(self, error: Exception) -> None:
        """End it because of a bug, which is logged."""
        ...


class Connections:
    """A table, and the heartbeat of the session machines."""

    name = "connections"

    def __init__(self, clock: Clock, waits: QueueWaits) -> None:
        self._clock = clock
        self._waits = waits
        self._receivers: dict[ConnectionId, Receiver] = {}
        self._sockets: dict[ConnectionId, Connection] = {}
        self._busy: dict[ConnectionId, Connection] = {}
        self._per_user: Counter[tuple[TenantId, UserId]] = Counter()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    # membership ----------------------------------------------------------------------------------

    def add(self, receiver: Receiver) -> None:
        """From now on frames for its id reach it."""
        self._receivers[receiver.follower.connection_id] = receiver
        self._all_gone.clear()
        if isinstance(receiver, Connection):
            self._sockets[receiver.follower.connection_id] = receiver
            self._per_user[_user(receiver)] += 1

    def remove(self, receiver: Receiver) -> None:
        """Its id is gone. Idempotent."""
        connection_id = receiver.follower.connection_id
        if self._receivers.pop(connection_id, None) is None:
            return
        self._busy.pop(connection_id, None)
        connection = self._sockets.pop(connection_id, None)
        if connection is not None:
            user = _user(connection)
            self._per_user[user] -= 1
            if not self._per_user[user]:
                del self._per_user[user]
        if not self._receivers:
            self._all_gone.set()

    def find(self, connection_id: ConnectionId) -> Receiver | None:
        """The live connection of that id."""
        return self._receivers.get(connection_id)

    def of_user(self, tenant: TenantId, user: UserId) -> int:
        """Open sockets of a user on this process."""
        return self._per_user.get((tenant, user), 0)

    def sockets(self) -> list[Connection]:
        """All open sockets."""
        return list(self._sockets.values())

    def __len__(self) -> int:
        return len(self._receivers)

    def __iter__(self) -> Iterator[Receiver]:
        return iter(list(self._receivers.values()))

    async def wait_until_empty(self) -> None:
        """Return when the last one is gone. Cancellation is safe."""
        await self._all_gone.wait()

    # frames --------------------------------------------------------------------------------------

    def deliver(self, connection_id: ConnectionId, data: bytes) -> PushStatus:
        """Hand one frame to its connection. Calls for one connection keep their order."""
        receiver = self._receivers.get(connection_id)
        if receiver is None:
            return PushStatus.GONE
        try:
            return receiver.deliver(data)
        except Exception as error:  # noqa: BLE001 the other lines of a batch must not suffer
            receiver.break_off(error)
            return PushStatus.GONE

    # time ----------------------------------------------------------------------------------------

    def on_change(self, connection: Connection, needs_ticks: bool) -> None:
        """A connection begins, or stops, to need frequent ticks."""
        connection_id = connection.follower.connection_id
        if needs_ticks and connection_id in self._sockets:
            self._busy[connection_id] = connection
        else:
            self._busy.pop(connection_id, None)

    async def run(self) -> None:
        """Tick the machines; runs until cancelled."""
        ticks = 0
        while True:
            await self._clock.sleep(BUSY_TICK_MS / 1_000)
            ticks += 1
            for connection in list(self._busy.values()):
                _tick(connection, self._waits)
            if ticks % _QUIET_EVERY_TICKS == 0:
                now_ms = self._clock.now_ms()
                for connection in self.sockets():
                    if now_ms >= connection.session.due_at_ms:
                        _tick(connection, self._waits)


def _tick(connection: Connection, waits: QueueWaits) -> None:
    try:
        connection.tick(waits)
    except Exception as error:  # noqa: BLE001 a bug in one machine must not stop the clocks of all
        connection.break_off(error)


def _user(connection: Connection) -> tuple[TenantId, UserId]:
    return connection.session_ref.tenant, connection.session_ref.user
