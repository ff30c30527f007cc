"""How a gateway sends its clients away: spread over the window, so that nobody meets a herd."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.gateway.drain import Drain
from services.gateway.readiness import Readiness
from tests.fakes.clock import FakeRandomness

WINDOW_MS = 60_000


class FakeSocket:
    delay_ms = -1

    def drain(self, reconnect_after_ms: int) -> None:
        self.delay_ms = reconnect_after_ms


class FakeConnections:
    """All sockets leave by themselves."""

    def __init__(self, sockets: Sequence[FakeSocket]) -> None:
        self._sockets = sockets

    def __len__(self) -> int:
        return len(self._sockets)

    def sockets(self) -> Sequence[FakeSocket]:
        return self._sockets

    async def wait_until_empty(self) -> None:
        return


class FakeFollowUps:
    async def settle(self) -> None:
        return


@pytest.mark.case("B-26")
async def test_two_thousand_clients_are_told_to_come_back_over_the_whole_window() -> None:
    sockets = [FakeSocket() for _ in range(2_000)]
    readiness = Readiness({})
    drain = Drain(
        FakeConnections(sockets),  # type: ignore[arg-type]
        readiness,
        FakeFollowUps(),  # type: ignore[arg-type]
        FakeRandomness(26),
        WINDOW_MS,
    )
    await drain()

    assert readiness.faults() == {"process": "draining"}
    per_second = [0] * 60
    for socket in sockets:
        assert 0 <= socket.delay_ms <= WINDOW_MS
        per_second[min(59, socket.delay_ms // 1_000)] += 1
    assert max(per_second) < 3 * len(sockets) / 60
    assert min(per_second) > 0
