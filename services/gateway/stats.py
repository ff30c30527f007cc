"""What this process holds, for `/internal/stats` and as metrics."""

from __future__ import annotations

from services.gateway.connections import Connections
from services.gateway.readiness import Readiness
from services.gateway.virtual_connection import VirtualConnection
from shared.clock import Clock
from shared.telemetry import Metrics

PUBLISH_EVERY_S = 60.0


class GatewayStats:
    """Counts on demand and publishes once a minute; scaling follows `Connections`."""

    name = "stats"

    def __init__(
        self, connections: Connections, readiness: Readiness, metrics: Metrics, clock: Clock
    ) -> None:
        self._connections = connections
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock

    def snapshot(self) -> dict[str, object]:
        """Counts and bytes as of now."""
        sockets = self._connections.sockets()
        virtual = sum(isinstance(socket, VirtualConnection) for socket in sockets)
        return {
            "connections": len(sockets) - virtual,
            "virtual_connections": virtual,
            "running_turns": sum(len(socket.session.turns.turn_ids()) for socket in sockets),
            "outbox_bytes": sum(receiver.outbox_bytes for receiver in self._connections),
            "draining": self._readiness.is_draining,
        }

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._clock.sleep(PUBLISH_EVERY_S)
            self._metrics.gauge("Connections", len(self._connections.sockets()))
