"""How a gateway leaves: its turns live on elsewhere, its clients are sent on in their own time."""

from __future__ import annotations

import asyncio

from services.gateway.connections import Connections
from services.gateway.follow_ups import FollowUps
from services.gateway.readiness import Readiness
from shared.clock import Randomness
from shared.telemetry import Log

CLOSE_LIMIT_S = 5.0
"""After the last call, for close handshakes and for taking entries out of the registry."""

_log = Log("drain")


class Drain:
    """Not ready → no new sockets → `session.goaway` → close as turns end → close what is left."""

    def __init__(
        self,
        connections: Connections,
        readiness: Readiness,
        follow_ups: FollowUps,
        randomness: Randomness,
        window_ms: int,
    ) -> None:
        self._connections = connections
        self._follow_ups = follow_ups
        self._readiness = readiness
        self._randomness = randomness
        self._window_ms = window_ms

    @property
    def limit_s(self) -> float:
        """How long the drain may take in all."""
        return self._window_ms / 1_000 + CLOSE_LIMIT_S

    async def __call__(self) -> None:
        """Return when every connection is gone. The delays are spread, so that the clients do not come as a herd."""
        self._readiness.is_draining = True
        _log.info("drain.started", connections=len(self._connections))
        for connection in self._connections.sockets():
            connection.drain(round(self._randomness.uniform(0, self._window_ms)))
        if not await self._all_gone_within(self._window_ms / 1_000):
            _log.info("drain.last_call", connections=len(self._connections))
            for connection in self._connections.sockets():
                connection.leave()
            await self._all_gone_within(CLOSE_LIMIT_S)
        await self._follow_ups.settle()

    async def _all_gone_within(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                await self._connections.wait_until_empty()
        except TimeoutError:
            return False
        return True
