"""How long a turn waits for the model budget, and what follows when that is not enough.

Such a wait is no attempt and no part of the generation limit; the turn's limit of the first text bounds it.
"""

from __future__ import annotations

from shared.policy.limits import TurnLimits
from shared.policy.retry import GiveUp, HandOver

FIRST_TEXT_NEEDS_MS = 2_000
"""With less time left a call would be cut before its first text."""
_LEAST_DELAY_MS = 1_000


def patience_ms(
    *, now_ms: int, deadline_ms: int | None, may_hand_over_until_ms: int | None, limits: TurnLimits
) -> int | None:
    """How long this process waits at most, None = without limit.

    `deadline_ms` (epoch): the first text must have come. Until `may_hand_over_until_ms` a process that pays for its
    waits keeps only the short ones; None = always.
    """
    longest_here = limits.retry_in_process_limit_ms
    if longest_here is not None and _is_before(now_ms + longest_here, may_hand_over_until_ms):
        return longest_here
    if deadline_ms is None:
        return None
    return max(0, deadline_ms - FIRST_TEXT_NEEDS_MS - now_ms)


def after_wait(
    wait_ms: int, *, now_ms: int, may_hand_over_until_ms: int | None, limits: TurnLimits
) -> HandOver | GiveUp:
    """What follows when the budget will not allow a call for `wait_ms` more, longer than the patience."""
    delay_ms = max(_LEAST_DELAY_MS, wait_ms)
    may_leave = limits.retry_in_process_limit_ms is not None
    if may_leave and _is_before(now_ms + delay_ms, may_hand_over_until_ms):
        return HandOver(delay_ms)
    return GiveUp(delay_ms)


def _is_before(at_ms: int, deadline_ms: int | None) -> bool:
    return deadline_ms is None or at_ms < deadline_ms - FIRST_TEXT_NEEDS_MS
