"""How long a turn took, counted from its acceptance."""

from __future__ import annotations

from shared.clock import Clock
from shared.contracts.server_frames import Timings


class Stopwatch:
    """The moments of one claimed turn (epoch ms). Hosts' clocks differ a little, so no duration is negative."""

    def __init__(self, clock: Clock, accepted_at_ms: int) -> None:
        self._clock = clock
        self._accepted_at_ms = accepted_at_ms
        self.claimed_at_ms = clock.now_ms()
        self.first_text_at_ms: int | None = None

    def note_first_text(self) -> None:
        """The first visible text has come."""
        self.first_text_at_ms = self._clock.now_ms()

    def timings(self) -> Timings:
        """The durations so far; without any text the first text counts as now."""
        now_ms = self._clock.now_ms()
        first_ms = now_ms if self.first_text_at_ms is None else self.first_text_at_ms
        return Timings(
            queued_ms=self._since_accepted(self.claimed_at_ms),
            first_token_ms=self._since_accepted(first_ms),
            total_ms=self._since_accepted(now_ms),
        )

    def _since_accepted(self, at_ms: int) -> int:
        return max(0, at_ms - self._accepted_at_ms)
