"""Limits that follow the load."""

from __future__ import annotations

import io
import json

from shared.bootstrap.limits import answer_plans
from shared.settings import Settings
from shared.telemetry import Metrics
from shared.turn.load_watch import LoadWatch
from tests.fakes.clock import FakeClock
from tests.fakes.load_board import FakeLoadBoard


async def test_turns_that_are_answered_with_less_are_counted_by_level() -> None:
    clock, written, settings = FakeClock(), io.StringIO(), Settings()
    board = FakeLoadBoard(clock)
    watch = LoadWatch(board, clock, burst_capacity_turns=10)
    metrics = Metrics("test", "orchestrator", clock, written)
    plan = answer_plans(settings, watch, metrics)
    assert plan().model == settings.model.model_primary
    board.queued_at_ms = {str(number): clock.now_ms() for number in range(20)}
    await watch.refresh()
    assert (plan().model, plan().max_tokens) == (settings.model.model_fast, 512)
    counted = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["BrownoutTurns"], line["LoadLevel"]) for line in counted] == [
        (1, "moderate"),
        (1, "moderate"),
    ]
