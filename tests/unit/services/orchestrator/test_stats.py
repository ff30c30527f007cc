"""The share of running slots as a metric."""

from __future__ import annotations

import asyncio
import io
import json

import pytest

from services.orchestrator.stats import OrchestratorStats
from shared.policy.admission import SlotCount
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(
    ("count", "share"), [(SlotCount(8, 6), 0.75), (SlotCount(8, 0), 0.0), (SlotCount(0, 0), 0.0)]
)
async def test_the_share_of_running_slots_is_published_by_the_second(
    count: SlotCount, share: float
) -> None:
    clock, out = FakeClock(), io.StringIO()
    stats = OrchestratorStats(lambda: count, Metrics("test", "orchestrator", clock, out), clock)
    task = asyncio.create_task(stats.run())

    await clock.advance(5.0)

    task.cancel()
    [line] = map(json.loads, out.getvalue().splitlines())
    [definition] = line["_aws"]["CloudWatchMetrics"]
    assert line["RunningPerSlot"] == share
    assert definition["Metrics"][0]["StorageResolution"] == 1
