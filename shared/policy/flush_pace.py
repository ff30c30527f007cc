"""How often a process flushes."""

from __future__ import annotations

from shared.policy.limits import FlushLimits

_SMOOTHING = 0.3
_STRETCH_PER_LAG = 4.0


def smoothed_lag_ms(previous_ms: float, measured_ms: float) -> float:
    """The loop's lag without its single spikes."""
    return previous_ms + _SMOOTHING * (max(0.0, measured_ms) - previous_ms)


def tick_length_ms(lag_ms: float, limits: FlushLimits) -> float:
    """The tick, stretched by four times the process's own lag up to its maximum; nothing else stretches it."""
    return min(limits.tick_max_ms, limits.tick_ms + _STRETCH_PER_LAG * lag_ms)
