"""`/ws`: opens connections and moves their bytes; what they mean is the session machine's business."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from services.asgi import Receive, Scope, Send
from services.gateway.connection import Connection, Perform
from services.gateway.connections import Connections
from services.gateway.handshake import (
    Admitted,
    Denied,
    Handshakes,
    denial_headers,
)
from services.gateway.leaving import Leaving
from services.gateway.lifetime import CLOSE_TOO_MANY
from services.gateway.outbox import Outbox
from services.gateway.session import Session, SessionLimits
from services.gateway.socket_protocol import EXTENSION
from shared.clock import Clock
from shared.contracts.identifiers import OwnerId
from shared.contracts.ledger import Follower
from shared.errors import ChatError
from shared.ports import ConnectionRegistry, SessionQueue
from shared.telemetry import Log, bind

_log = Log("websocket")


class SocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one socket and of one user's sockets."""

    session: SessionLimits
    outbox_bytes: int
    outbox_stuck_ms: int
    user_connections: int


class WebSocketEndpoint:
    """The ASGI app of one process's sockets."""

    def __init__(
        self,
        *,
        limits: SocketLimits,
        handshakes: Handshakes,
        connections: Connections,
        registry: ConnectionRegistry,
        sessions: SessionQueue,
        leaving: Leaving,
        perform: Perform,
        endpoint: str,
        owner: OwnerId,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._handshakes = handshakes
        self._connections = connections
        self._registry = registry
        self._sessions = sessions
        self._leaving = leaving
        self._perform = perform
        self._endpoint = endpoint
        self._owner = owner
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One socket from handshake to close."""
        await receive()  # websocket.connect
        admitted = self._handshakes.judge(scope)
        if isinstance(admitted, Denied):
            await _deny(send, admitted)
            return
        tenant, user = admitted.identity.tenant, admitted.identity.user
        limit = self._limits.user_connections
        if limit and self._connections.of_user(tenant, user) >= limit:
            await _close_too_many(send, admitted)
            return
        follower = Follower(self._handshakes.new_connection_id(), self._endpoint, self._owner)
        with bind(connection_id=follower.connection_id, session_id=admitted.session.session_id):
            await self._open(scope, receive, send, admitted, follower)

    async def _open(
        self, scope: Scope, receive: Receive, send: Send, admitted: Admitted, follower: Follower
    ) -> None:
        try:
            # Registered before anyone can learn the id, so a push never finds it unknown (case B-08).
            is_registered, running = await asyncio.gather(
                self._registry.register(admitted.session, follower),
                self._sessions.running(admitted.session),
            )
        except ChatError as error:
            _log.warning("socket.refused", error_type=type(error).__name__)
            await _deny(send, self._handshakes.unavailable())
            return
        if not is_registered:
            await _close_too_many(send, admitted)
            return
        connection = self._connection(scope, admitted, follower)
        try:
            if not await _accept(send, admitted):
                return
            self._connections.add(connection)
            connection.run(connection.session.ready(admitted.session.session_id, running))
            _log.info("socket.opened", running=len(running))
            await _pump(connection, receive)
        except Exception as error:  # noqa: BLE001 a bug ends this connection, with a close code
            connection.break_off(error)
        finally:
            await self._leaving.leave(connection)

    def _connection(self, scope: Scope, admitted: Admitted, follower: Follower) -> Connection:
        return Connection(
            session=Session(
                self._limits.session,
                follower.connection_id,
                self._clock.now_ms(),
                admitted.identity.expires_at_ms,
            ),
            session_ref=admitted.session,
            follower=follower,
            peer=admitted.peer,
            outbox=Outbox(self._limits.outbox_bytes, self._limits.outbox_stuck_ms),
            socket=scope["extensions"][EXTENSION],
            perform=self._perform,
            clock=self._clock,
            on_change=self._connections.on_change,
        )


async def _close_too_many(send: Send, admitted: Admitted) -> None:
    with suppress(OSError):  # the client has left
        await send({"type": "websocket.accept", "subprotocol": admitted.subprotocol})
        await send({"type": "websocket.close", "code": CLOSE_TOO_MANY, "reason": "too many"})


async def _accept(send: Send, admitted: Admitted) -> bool:
    try:
        await send({"type": "websocket.accept", "subprotocol": admitted.subprotocol})
    except OSError:
        # That is how ASGI says that the client has left; it is nobody's fault.
        return False
    return True


async def _pump(connection: Connection, receive: Receive) -> None:
    while True:
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return
        text = event.get("text")
        connection.receive(event["bytes"] if text is None else text)
        await connection.ready_to_read()


async def _deny(send: Send, denied: Denied) -> None:
    body = msgspec.json.encode({"code": denied.code, "message": denied.message})
    await send(
        {
            "type": "websocket.http.response.start",
            "status": denied.status,
            "headers": denial_headers(denied),
        }
    )
    await send({"type": "websocket.http.response.body", "body": body})
