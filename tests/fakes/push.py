"""The Management API in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.clock import Clock
from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.server_frames import AnyServerFrame, decode_server_frame
from shared.errors import DependencyUnavailable


class FakePush:
    """FramePush. `received` holds what each connection got, in order; `requests` each request's connection ids.

    `gone`, `throttled` and `too_large` are connection ids with that answer. `failing` endpoints raise; `error` says
    what. `latency_s` is how long a request takes on the clock, per endpoint.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.received: dict[str, list[bytes]] = {}
        self.requests: list[tuple[str, list[str]]] = []
        self.gone: set[str] = set()
        self.throttled: set[str] = set()
        self.too_large: set[str] = set()
        self.failing: set[str] = set()
        self.error: Callable[[], Exception] = lambda: DependencyUnavailable("no answer to a push")
        self.latency_s: dict[str, float] = {}
        self.in_flight: dict[str, int] = {}
        self.most_in_flight: dict[str, int] = {}
        self.busy_connections: set[str] = set()
        self.overlaps = 0  # pushes to a connection that already had one under way

    async def push(self, endpoint: str, frames: Sequence[PushFrame]) -> Sequence[PushStatus]:
        ids = [frame.connection_id for frame in frames]
        self.requests.append((endpoint, [str(one) for one in ids]))
        self.overlaps += len(self.busy_connections.intersection(ids))
        self.busy_connections.update(ids)
        running = self.in_flight[endpoint] = self.in_flight.get(endpoint, 0) + 1
        self.most_in_flight[endpoint] = max(running, self.most_in_flight.get(endpoint, 0))
        try:
            await self._clock.sleep(self.latency_s.get(endpoint, 0))
            if endpoint in self.failing:
                raise self.error()
            return [self._answer(frame) for frame in frames]
        finally:
            self.in_flight[endpoint] -= 1
            self.busy_connections.difference_update(ids)

    def frames(self, connection_id: str) -> list[AnyServerFrame]:
        """What the connection got, decoded."""
        return [decode_server_frame(data) for data in self.received.get(connection_id, [])]

    def _answer(self, frame: PushFrame) -> PushStatus:
        connection_id = frame.connection_id
        if connection_id in self.gone:
            return PushStatus.GONE
        if connection_id in self.throttled:
            return PushStatus.THROTTLED
        if connection_id in self.too_large or len(frame.data) > 131_072:
            return PushStatus.TOO_LARGE
        self.received.setdefault(connection_id, []).append(frame.data)
        return PushStatus.SENT
