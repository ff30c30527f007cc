"""Keeps one tenant from filling a task while others wait. Pure; one instance per process."""

from __future__ import annotations

from collections import Counter

WAITING_MEMORY_MS = 5_000
TENANTS_REMEMBERED = 1_000


class TenantShares:
    """Slots held per tenant, and who lately found none.

    A tenant may use every slot while it is alone; from the moment another tenant overflows, half of them.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._running: Counter[str] = Counter()
        self._overflowed_at_ms: dict[str, int] = {}

    def start(self, tenant: str) -> None:
        """Count one slot taken."""
        self._running[tenant] += 1

    def end(self, tenant: str) -> None:
        """Count one slot given back."""
        self._running[tenant] -= 1
        if self._running[tenant] <= 0:
            del self._running[tenant]

    def overflow(self, tenant: str, now_ms: int) -> None:
        """Note that a turn of this tenant found no slot."""
        self._overflowed_at_ms.pop(tenant, None)
        self._overflowed_at_ms[tenant] = now_ms
        if len(self._overflowed_at_ms) > TENANTS_REMEMBERED:
            del self._overflowed_at_ms[next(iter(self._overflowed_at_ms))]

    def is_over(self, tenant: str, now_ms: int) -> bool:
        """True when the tenant holds half of the slots and another one overflowed in the last seconds."""
        if 2 * self._running[tenant] < self._slots:
            return False
        # Newest last: the first entry that is too old ends the search.
        for other, at_ms in reversed(self._overflowed_at_ms.items()):
            if now_ms - at_ms > WAITING_MEMORY_MS:
                return False
            if other != tenant:
                return True
        return False
