"""What is predicted of waits in burst is recorded with what came of it."""

from __future__ import annotations

import io
import json

from services.gateway.queue_waits import QueueWaits
from services.gateway.session_io import NoteWait
from shared.contracts.load import FleetLoad
from shared.policy.queue_forecast import QueueForecast
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock


def test_a_wait_is_told_by_the_forecast_at_this_moment() -> None:
    clock, forecast = FakeClock(), QueueForecast(20)
    waits = QueueWaits(forecast, clock, Metrics("test", "gateway", clock, io.StringIO()))
    assert waits.wait_ms(clock.now_ms()) == 0
    forecast.read(FleetLoad(samples=(), burst_waiting=40, burst_entered=40), clock.now_ms())
    assert waits.wait_ms(clock.now_ms()) == 10_000  # forty at twenty in five seconds


def test_an_error_is_a_share_of_the_true_wait() -> None:
    clock, written = FakeClock(), io.StringIO()
    waits = QueueWaits(QueueForecast(20), clock, Metrics("test", "gateway", clock, written))
    waits.note(NoteWait(predicted_ms=3_000, actual_ms=2_000))
    waits.note(NoteWait(predicted_ms=3, actual_ms=0))
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["QueuedWait"] for line in lines if "QueuedWait" in line] == [2_000, 0]
    assert [line["QueuedWaitError"] for line in lines if "QueuedWaitError" in line] == [0.5, 3.0]
