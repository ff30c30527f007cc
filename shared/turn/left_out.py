"""Asking something that helps an answer but must not cost one: a deadline, and a word about what did not come."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeVar

from shared.clock import Clock
from shared.errors import TransientError
from shared.telemetry import Log, Metrics
from shared.turn.deadline import within

T = TypeVar("T")
_log = Log("sources")


class LeftOut:
    """Logs and counts what an answer had to do without, by source and reason."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def note(self, source: str, error: Exception) -> None:
        """One source, for one turn."""
        reason = _reason(error)
        _log.warning(
            "source.left_out", source=source, reason=reason, error_type=type(error).__name__
        )
        self._metrics.count("SourceLeftOut", source=source, reason=reason)


async def ask_within(
    clock: Clock,
    timeout_ms: float,
    question: Coroutine[object, object, T],
    *,
    source: str,
    left_out: LeftOut,
    otherwise: T,
) -> T:
    """The answer, or `otherwise` when the source failed or took longer; raises nothing but CancelledError."""
    try:
        return await within(clock, timeout_ms, question)
    except Exception as error:  # noqa: BLE001 - a broken source must not cost an answer
        left_out.note(source, error)
        return otherwise


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return "unavailable" if isinstance(error, TransientError) else "error"
