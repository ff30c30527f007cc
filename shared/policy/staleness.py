"""When a turn is too old to begin, and until when its first text may come."""

from __future__ import annotations

from shared.contracts.turns import TurnRequest
from shared.policy.limits import TurnLimits


def is_interactive(request: TurnRequest) -> bool:
    """True unless the turn is detached work of the deferred or background queue."""
    return not request.detached or request.priority == "high"


def ready_at_ms(request: TurnRequest) -> int:
    """When the turn's clocks started: as head of its session, or at acceptance for one that never queued there."""
    return request.ready_at_ms or request.accepted_at_ms


def age_ms(request: TurnRequest, now_ms: int) -> int:
    """Time since the clocks started, never negative (hosts disagree a little)."""
    return max(0, now_ms - ready_at_ms(request))


def is_stale(request: TurnRequest, now_ms: int, limits: TurnLimits) -> bool:
    """True when nobody would want an answer begun now. Takeovers and redrives are exempt."""
    if request.attempt_hint > 0:
        return False
    if request.limit_at_ms and now_ms > request.limit_at_ms:
        return True
    return is_interactive(request) and age_ms(request, now_ms) > limits.stale_after_ms


def first_text_deadline_ms(
    request: TurnRequest, *, attempt: int, claimed_at_ms: int, limits: TurnLimits
) -> int | None:
    """Epoch ms until which the first text must come; None = only the generation limit counts.

    A later attempt has at least `late_attempt_min_ms` from its claim.
    """
    if is_interactive(request):
        deadline = ready_at_ms(request) + limits.first_text_limit_ms
        if request.limit_at_ms:
            deadline = min(deadline, request.limit_at_ms)
    elif request.limit_at_ms:
        deadline = request.limit_at_ms
    else:
        return None
    if attempt > 1:
        deadline = max(deadline, claimed_at_ms + limits.late_attempt_min_ms)
    return deadline
