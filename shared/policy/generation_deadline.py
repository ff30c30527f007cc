"""How long a model call may take, and what its silence means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.policy.limits import TurnLimits

_CLOSING_MS = 1_000.0
Overrun = Literal["first_event", "silence", "first_text", "generation"]


@dataclass(frozen=True, kw_only=True)
class CallProgress:
    """One model call so far; times in monotonic ms, None = not yet. `first_text_by_ms` None = no such limit."""

    started_ms: float
    last_event_ms: float | None
    is_visible: bool
    stopped: bool
    first_text_by_ms: float | None


def next_deadline(progress: CallProgress, limits: TurnLimits) -> tuple[float, Overrun]:
    """When the call is given up at the earliest (monotonic ms), and for what reason.

    Any event is a sign of life, pings included; only text satisfies the first-text limit. After the stop reason the
    provider has a second to end its stream, so that the connection can be kept.
    """
    if progress.stopped and progress.last_event_ms is not None:
        return progress.last_event_ms + _CLOSING_MS, "silence"
    deadlines: list[tuple[float, Overrun]] = [
        (progress.started_ms + limits.generation_limit_ms, "generation")
    ]
    if progress.last_event_ms is None:
        deadlines.append((progress.started_ms + limits.first_event_timeout_ms, "first_event"))
    else:
        deadlines.append((progress.last_event_ms + limits.silence_timeout_ms, "silence"))
    if progress.first_text_by_ms is not None and not progress.is_visible:
        deadlines.append((progress.first_text_by_ms, "first_text"))
    return min(deadlines)
