"""Whether a failed model call is tried again: by the error's type, never by its text."""

from __future__ import annotations

from dataclasses import dataclass

from shared.errors import TransientError
from shared.policy.backoff import ceiling_ms
from shared.policy.limits import TurnLimits

_HINT_SPREAD_SHARE = 0.1
_LONGEST_BACKOFF_MS = 60_000


@dataclass(frozen=True)
class RetryAfter:
    """Try again in this process after `wait_ms`."""

    wait_ms: int


@dataclass(frozen=True)
class HandOver:
    """Too long to wait here: give the turn to the retry queue with `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True)
class GiveUp:
    """End the turn with the error's own code; `retry_after_ms` is the remote's hint for the user."""

    retry_after_ms: int | None


RetryDecision = RetryAfter | HandOver | GiveUp


def decide_retry(
    error: Exception,
    *,
    is_visible: bool,
    tries: int,
    now_ms: int,
    deadline_ms: int | None,
    spread: float,
    limits: TurnLimits,
) -> RetryDecision:
    """What follows a failure.

    `tries` counts the turn's attempts so far, this one included. `deadline_ms` (epoch) is when the first text must
    have come. `spread` in 0..1 is the jitter: of the whole back-off, or of a tenth on top of the remote's own hint,
    so that those who were refused together do not come back together.
    """
    if not isinstance(error, TransientError):
        return GiveUp(None)
    hint_ms = error.retry_after_ms
    if is_visible or tries >= limits.attempts_per_turn:
        return GiveUp(hint_ms)
    if hint_ms is None:
        wait_ms = round(spread * ceiling_ms(limits.retry_backoff_ms, tries, _LONGEST_BACKOFF_MS))
    else:
        wait_ms = hint_ms + round(spread * _HINT_SPREAD_SHARE * hint_ms)
    if deadline_ms is not None and now_ms + wait_ms >= deadline_ms:
        return GiveUp(hint_ms)
    if deadline_ms is None and wait_ms > _LONGEST_BACKOFF_MS:
        return GiveUp(hint_ms)
    longest_here = limits.retry_in_process_limit_ms
    if longest_here is not None and wait_ms > longest_here:
        return HandOver(wait_ms)
    return RetryAfter(wait_ms)
