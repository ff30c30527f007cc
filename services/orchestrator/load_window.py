"""What one task has measured of itself: event-loop lag and the length of its turns. Pure."""

from __future__ import annotations

MEAN_TURN_WEIGHT = 0.1


class LagWindow:
    """Delays of one sampling period."""

    def __init__(self) -> None:
        self._delays_ms: list[float] = []

    def add(self, delay_ms: float) -> None:
        """Note by how much one probe was late."""
        self._delays_ms.append(max(0.0, delay_ms))

    def close(self) -> float:
        """The period's lag in ms: its 90th percentile, so that one collection of garbage is no overload.

        Forgets the period. A loop that is truly blocked has few probes, all of them late.
        """
        delays_ms, self._delays_ms = sorted(self._delays_ms), []
        return delays_ms[(len(delays_ms) - 1) * 9 // 10] if delays_ms else 0.0


class MeanTurn:
    """Moving average of the turns' run time; 0 until one has ended."""

    def __init__(self) -> None:
        self.value_ms = 0.0

    def add(self, duration_ms: float) -> None:
        """Count one ended turn."""
        if self.value_ms == 0:
            self.value_ms = duration_ms
        else:
            self.value_ms += MEAN_TURN_WEIGHT * (duration_ms - self.value_ms)
