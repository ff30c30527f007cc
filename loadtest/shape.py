"""The shape of a burst: a baseline, then ten times as many users within ten seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Burst:
    """Users over time; durations in seconds."""

    baseline_users: int = 4
    factor: int = 10
    baseline_s: float = 10
    ramp_s: float = 10
    hold_s: float = 20

    @property
    def length_s(self) -> float:
        """From the first user to the last."""
        return self.baseline_s + self.ramp_s + self.hold_s

    def users_at(self, elapsed_s: float) -> int | None:
        """How many users chat at this time; None when the burst is over."""
        if elapsed_s >= self.length_s:
            return None
        climbed = min(1.0, max(0.0, (elapsed_s - self.baseline_s) / self.ramp_s))
        return round(self.baseline_users * (1 + (self.factor - 1) * climbed))
