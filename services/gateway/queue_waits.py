"""How long turns wait in burst: what is predicted to their readers, and how right that proved."""

from __future__ import annotations

from services.gateway.session_io import NoteWait
from shared.clock import Clock
from shared.policy.queue_forecast import QueueForecast
from shared.telemetry import Metrics


class QueueWaits:
    """One process's view of the burst queue, as `chat.queued` tells it."""

    def __init__(self, forecast: QueueForecast, clock: Clock, metrics: Metrics) -> None:
        self._forecast = forecast
        self._clock = clock
        self._metrics = metrics

    def wait_ms(self, queued_at_ms: int) -> int:
        """How much longer a turn waits that was queued then, epoch ms."""
        return self._forecast.wait_ms(queued_at_ms, self._clock.now_ms())

    def note(self, wait: NoteWait) -> None:
        """A turn has started: record its wait, and by what share of it the prediction was wrong."""
        self._metrics.duration_ms("QueuedWait", wait.actual_ms)
        error = abs(wait.predicted_ms - wait.actual_ms) / max(1, wait.actual_ms)
        self._metrics.gauge("QueuedWaitError", round(error, 3))
