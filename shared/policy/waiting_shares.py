"""Keeps one tenant from filling the burst queue while others wait there. Pure; one instance per process.

A process judges by what it has put there itself within the time that turns wait now: those wait still. All processes
see a part of the same traffic, so that their shares are much alike.
"""

from __future__ import annotations

from collections import Counter, deque

CROWDED_WAIT_MS = 5_000
"""Below this predicted wait nobody is kept out: a share of an almost empty queue would only leave burst idle."""
LONG_WAIT_MS = 15_000
"""From here on shares are equal; before that, who has less than half is no flood."""
TURNS_REMEMBERED = 10_000


class WaitingShares:
    """At most half of a queue, and an equal share of a long one, for each of several tenants that wait in it."""

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
        """True when others wait too, and the tenant has its share of the queue already."""
        if predicted_wait_ms < CROWDED_WAIT_MS:
            return False
        while self._queued and now_ms - self._queued[0][0] > predicted_wait_ms:
            self._forget_oldest()
        others = len(self._turns) - (tenant in self._turns)
        parts = 2 if predicted_wait_ms < LONG_WAIT_MS else others + 1
        return others > 0 and self._turns[tenant] * parts >= len(self._queued)

    def _forget_oldest(self) -> None:
        _, tenant = self._queued.popleft()
        self._turns[tenant] -= 1
        if not self._turns[tenant]:
            del self._turns[tenant]
