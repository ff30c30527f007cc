"""Keeps one tenant from filling the burst queue while others wait there. Pure; one instance per process.

A process judges by what it has put there itself within the time that turns wait now: those wait still. All processes
see a part of the same traffic, so that their shares are much alike.
"""

from __future__ import annotations

from collections import Counter, deque

CROWDED_WAIT_MS = 5_000
"""Below this predicted wait nobody is kept out: a share of an almost empty queue would only leave burst idle."""
TURNS_REMEMBERED = 10_000


class WaitingShares:
    """Equal shares of the queue for the tenants that wait in it."""

    def __init__(self) -> None:
        self._queued: deque[tuple[int, str]] = deque()
        self._turns: Counter[str] = Counter()

    def queued(self, tenant: str, now_ms: int) -> None:
        """A turn of the tenant was put on the burst queue."""
        self._queued.append((now_ms, tenant))
        self._turns[tenant] += 1
        if len(self._queued) > TURNS_REMEMBERED:
            self._forget_oldest()

    def is_crowding(self, tenant: str, predicted_wait_ms: int, now_ms: int) -> bool:
        """True when the queue is long, others wait in it, and the tenant has its equal share of it already."""
        if predicted_wait_ms < CROWDED_WAIT_MS:
            return False
        while self._queued and now_ms - self._queued[0][0] > predicted_wait_ms:
            self._forget_oldest()
        others = len(self._turns) - (tenant in self._turns)
        return others > 0 and self._turns[tenant] * (others + 1) >= len(self._queued)

    def _forget_oldest(self) -> None:
        _, tenant = self._queued.popleft()
        self._turns[tenant] -= 1
        if not self._turns[tenant]:
            del self._turns[tenant]
