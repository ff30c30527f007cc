"""Keeps one tenant from filling a task while others wait, or are about to come. Pure; one instance per process."""

from __future__ import annotations

from collections import Counter, OrderedDict

WAITING_MEMORY_MS = 5_000
DEMAND_MEMORY_MS = 300_000
TENANTS_REMEMBERED = 1_000
KEPT_PART = 4
"""At most one of so many slots is kept free for tenants who used it lately."""
SPARE_SLOTS = 2
"""Kept for such a tenant beyond what it used at once: sooner or later everybody needs more than ever before."""


class TenantShares:
    """Slots held per tenant, who lately wanted how many at once, and who lately found none.

    A tenant may use every slot while it is alone. From the moment another one overflows it yields beyond half of
    them. Beyond an equal share it also leaves free what others used at once during the last minutes, so that a quiet
    tenant need not wait first for its share to be cleared.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._running: Counter[str] = Counter()
        self._overflowed_at_ms: dict[str, int] = {}
        self._wanted: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def start(self, tenant: str) -> None:
        """Count one slot taken."""
        self._running[tenant] += 1

    def end(self, tenant: str) -> None:
        """Count one slot given back."""
        self._running[tenant] -= 1
        if self._running[tenant] <= 0:
            del self._running[tenant]

    def want(self, tenant: str, now_ms: int) -> None:
        """Note that a turn of this tenant asks for a slot."""
        wanted = self._running[tenant] + 1
        peak, at_ms = self._wanted.pop(tenant, (0, now_ms))
        if wanted >= peak or now_ms - at_ms > DEMAND_MEMORY_MS:
            peak, at_ms = wanted, now_ms
        self._wanted[tenant] = (peak, at_ms)
        if len(self._wanted) > TENANTS_REMEMBERED:
            self._wanted.popitem(last=False)

    def overflow(self, tenant: str, now_ms: int) -> None:
        """Note that a turn of this tenant found no slot."""
        self._overflowed_at_ms.pop(tenant, None)
        self._overflowed_at_ms[tenant] = now_ms
        if len(self._overflowed_at_ms) > TENANTS_REMEMBERED:
            del self._overflowed_at_ms[next(iter(self._overflowed_at_ms))]

    def is_over(self, tenant: str, now_ms: int) -> bool:
        """True when one slot more for this tenant would be at the cost of others."""
        if 2 * self._running[tenant] >= self._slots and self._others_wait(tenant, now_ms):
            return True
        wanted = {
            name: peak
            for name, (peak, at_ms) in self._wanted.items()
            if now_ms - at_ms <= DEMAND_MEMORY_MS and name != tenant
        }
        share = max(1, self._slots // (len(wanted) + 1))
        if not wanted or self._running[tenant] < share:
            return False
        kept = sum(
            max(0, min(peak + SPARE_SLOTS, share) - self._running[name])
            for name, peak in wanted.items()
        )
        free = self._slots - self._running.total()
        return free <= min(kept, max(1, self._slots // KEPT_PART))

    def _others_wait(self, tenant: str, now_ms: int) -> bool:
        # Newest last: the first entry that is too old ends the search.
        for other, at_ms in reversed(self._overflowed_at_ms.items()):
            if now_ms - at_ms > WAITING_MEMORY_MS:
                return False
            if other != tenant:
                return True
        return False
