"""Taking a connection whose peer has gone out of everything that knows it."""

from __future__ import annotations

from services.gateway.connection import Connection
from services.gateway.connections import Connections
from shared.clock import Clock
from shared.errors import ChatError
from shared.ports import ConnectionRegistry, TurnFollowers
from shared.telemetry import Log

_log = Log("leaving")


class Leaving:
    """The same for sockets and for HTTP requests that waited."""

    def __init__(
        self,
        connections: Connections,
        registry: ConnectionRegistry,
        followers: TurnFollowers,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._registry = registry
        self._followers = followers
        self._clock = clock

    async def leave(self, connection: Connection) -> None:
        """Let its commands end, then unfollow its turns, whose grace begins, and unregister. Raises nothing."""
        self._connections.remove(connection)
        turn_ids = await connection.finish()
        now_ms = self._clock.now_ms()
        turns = connection.turn_refs(turn_ids)
        _log.info(
            "socket.closed",
            turns=len(turns),
            open_ms=now_ms - connection.connected_at_ms,
        )
        try:
            if turns:
                await self._followers.unfollow(turns, connection.follower, now_ms)
            await self._registry.unregister(connection.session_ref, connection.follower)
        except ChatError as error:
            # The owner's lease does not cover it for ever: a push answers 410 and removes the follower.
            _log.warning("socket.not_unregistered", error_type=type(error).__name__)
