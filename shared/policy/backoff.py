"""How long to wait before something is tried again."""

from __future__ import annotations


def ceiling_ms(first_ms: int, failures: int, max_ms: int) -> int:
    """The longest wait after `failures` failures in a row (from 1): doubled each time, at most `max_ms`.

    Full jitter takes a uniform wait in [0, ceiling]; callers that must not spin take [ceiling/2, ceiling].
    """
    return min(max_ms, first_ms << min(max(failures, 1) - 1, 30))


def spread_ms(hint_ms: int, chance: float) -> int:
    """When to come back, told to one of many: from the hint to twice of it. `chance` is uniform in [0, 1]."""
    return hint_ms + round(hint_ms * chance)
