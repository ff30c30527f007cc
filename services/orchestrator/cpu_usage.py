"""How much of the CPU that this process could use it does use."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from shared.clock import Clock

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
WINDOW = 3


def parse_quota_cpus(text: str) -> float | None:
    """CPUs that a cgroup v2 `cpu.max` grants (`quota period` in microseconds), None when unlimited or unreadable."""
    quota, _, period = text.strip().partition(" ")
    if not (quota.isdigit() and period.isdigit()) or int(period) == 0 or int(quota) == 0:
        return None
    return int(quota) / int(period)


def usable_cpus(quota_path: Path = CGROUP_QUOTA) -> float:
    """CPUs that the event loop can fill: the task's quota, at most one.

    One interpreter saturates at one core, however many the task has; measuring against all of them would call a
    saturated loop half idle.
    """
    try:
        quota = parse_quota_cpus(quota_path.read_text())
    except OSError:
        quota = None
    return min(1.0, quota or 1.0)


class CpuMeter:
    """CPU share of this process over the last WINDOW readings."""

    def __init__(
        self, clock: Clock, cpus: float, used_s: Callable[[], float] = time.process_time
    ) -> None:
        self._clock = clock
        self._cpus = cpus
        self._used_s = used_s
        self._readings: deque[tuple[float, float]] = deque(maxlen=WINDOW + 1)

    def share(self) -> float:
        """Share 0..1 (above 1 when helper threads work too); 0 at the first reading, which has no past.

        Call it once per sampling period: the window is what keeps one second of hard work, such as an index being
        loaded, from looking like overload.
        """
        now_s, used_s = self._clock.monotonic_s(), self._used_s()
        self._readings.append((now_s, used_s))
        first_s, first_used_s = self._readings[0]
        elapsed_s = now_s - first_s
        return (used_s - first_used_s) / (elapsed_s * self._cpus) if elapsed_s > 0 else 0.0
