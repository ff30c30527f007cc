"""When leases may be believed: a ledger that was away, or a process that was, has seen no renewals meanwhile."""

from __future__ import annotations

from collections.abc import Callable


def _no_spread_ms() -> float:
    return 0.0


class LeaseTrust:
    """Since when a ledger has answered one process without a break, on any clock of that process.

    A lease that looks lapsed says nothing until the ledger has answered for a full lease: its holder must have had
    the time to renew it. `spread_ms` is asked for at each new start and prolongs the wait, so that processes that
    lost the ledger together do not begin to judge together.
    """

    def __init__(self, lease_ms: int, *, spread_ms: Callable[[], float] = _no_spread_ms) -> None:
        self._lease_ms = lease_ms
        self._spread_ms = spread_ms
        self._answered_at_ms: float | None = None
        self._earned_at_ms = 0.0

    def is_earned(self, now_ms: float) -> bool:
        """True when every living holder has had the time to renew."""
        return self._is_unbroken(now_ms) and now_ms >= self._earned_at_ms

    def answered(self, now_ms: float) -> None:
        """The ledger has answered just now."""
        if not self._is_unbroken(now_ms):
            self._earned_at_ms = now_ms + self._lease_ms + self._spread_ms()
        self._answered_at_ms = now_ms

    def lose(self) -> None:
        """The ledger could not be asked."""
        self._answered_at_ms = None

    def _is_unbroken(self, now_ms: float) -> bool:
        # A process that stood still for a lease cannot know what happened meanwhile.
        last_ms = self._answered_at_ms
        return last_ms is not None and now_ms - last_ms < self._lease_ms
