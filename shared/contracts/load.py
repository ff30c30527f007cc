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


class FleetLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet's counters, at most two seconds old. `burst_waiting` = queued in burst and not yet claimed."""

    samples: tuple[LoadSample, ...]
    burst_waiting: int
