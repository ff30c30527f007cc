"""Opens connections for HTTP requests that wait for a reply: bounded, registered, and gone with their request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from services.gateway.connection import Peer, Perform
from services.gateway.connections import Connections
from services.gateway.http_problem import Problem
from services.gateway.http_socket import Transport
from services.gateway.leaving import Leaving
from services.gateway.ordered_reply import OrderedReply
from services.gateway.outbox import Outbox
from services.gateway.session import Session
from services.gateway.virtual_connection import VirtualConnection
from services.gateway.websocket import SocketLimits
from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionRef
from shared.contracts.ledger import Follower
from shared.ports import ConnectionRegistry
from shared.telemetry import Log, bind

_log = Log("virtual_connections")


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes the request. `expires_at_ms` is the token's end, None = no token."""

    session: SessionRef
    peer: Peer
    expires_at_ms: int | None
    transport: Transport


class VirtualConnections:
    """All those of one process. They count against their user's connections like sockets."""

    def __init__(
        self,
        *,
        limits: SocketLimits,
        connections_limit: int,
        connections: Connections,
        registry: ConnectionRegistry,
        leaving: Leaving,
        perform: Perform,
        new_connection_id: Callable[[], ConnectionId],
        is_draining: Callable[[], bool],
        endpoint: str,
        owner: OwnerId,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._connections_limit = connections_limit
        self._connections = connections
        self._registry = registry
        self._leaving = leaving
        self._perform = perform
        self._new_connection_id = new_connection_id
        self._is_draining = is_draining
        self._endpoint = endpoint
        self._owner = owner
        self._clock = clock
        self._open = 0

    @asynccontextmanager
    async def open(self, caller: Caller, reply: OrderedReply) -> AsyncIterator[VirtualConnection]:
        """A connection of the caller's until the block is left; what it follows is then unfollowed.

        Raises Problem when there may be no further one, DependencyUnavailable when the registry cannot be asked.
        """
        self._check(caller.session)
        self._open += 1
        try:
            connection = self._connection(caller, reply)
            connection_id = connection.follower.connection_id
            with bind(connection_id=connection_id, session_id=caller.session.session_id):
                # Before anyone can learn the id, so that a push never finds it unknown.
                if not await self._registry.register(caller.session, connection.follower):
                    raise _too_many()
                self._connections.add(connection)
                try:
                    yield connection
                finally:
                    await self._leaving.leave(connection)
        finally:
            self._open -= 1

    def _check(self, session: SessionRef) -> None:
        if self._is_draining():
            raise Problem(503, "unavailable", "This server is leaving. Please try again.")
        limit = self._limits.user_connections
        if limit and self._connections.of_user(session.tenant, session.user) >= limit:
            raise _too_many()
        if self._open >= self._connections_limit:
            _log.warning("virtual_connections.full", open=self._open)
            raise Problem(503, "overloaded", "Too many calls wait for a reply.")

    def _connection(self, caller: Caller, reply: OrderedReply) -> VirtualConnection:
        follower = Follower(self._new_connection_id(), self._endpoint, self._owner)
        return VirtualConnection(
            session=Session(
                self._limits.session,
                follower.connection_id,
                self._clock.now_ms(),
                caller.expires_at_ms,
            ),
            session_ref=caller.session,
            follower=follower,
            peer=caller.peer,
            outbox=Outbox(self._limits.outbox_bytes, self._limits.outbox_stuck_ms),
            transport=caller.transport,
            reply=reply,
            perform=self._perform,
            clock=self._clock,
            on_change=self._connections.on_change,
        )


def _too_many() -> Problem:
    return Problem(429, "rate_limited", "Too many of your calls wait for a reply.")
