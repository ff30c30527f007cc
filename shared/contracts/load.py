"""Load as each process sees and publishes it."""

from __future__ import annotations

import msgspec


class LoadSample(msgspec.Struct, frozen=True, kw_only=True):
    """One orchestrator task, sampled once a second. Durations in ms, cpu as a share 0..1."""

    worker: str
    at_ms: int
    slots: int
    running: int
    lag_ms: float
    cpu_share: float
    mean_turn_ms: float
    model_wait_ms: float = 0.0
    """How long an interactive turn would wait for the model budget, as far as this task knows."""


class FleetLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet's counters, at most two seconds old."""

    samples: tuple[LoadSample, ...]
    burst_waiting: int
    """Turns queued in burst and not yet claimed."""
    burst_entered: int = 0
    """Turns ever queued there; what does not wait any more has left. Counts on when the waiting are forgotten."""
    burst_oldest_ms: int = 0
    """How long the fourth oldest has waited; 0 with fewer, so that a few lost messages are no long queue."""
    burst_per_s: float = 0.0
    """Turns a second that burst takes up, as this reader has measured; 0 = not measured."""
