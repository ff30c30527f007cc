import asyncio
import io

import pytest

from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.load_monitor import LoadMonitor
from shared.policy.admission import SlotCount, StrainLimits
from shared.telemetry import Metrics
from shared.turn.load_watch import LoadWatch
from tests.fakes.clock import FakeClock
from tests.fakes.load_board import FakeLoadBoard

LIMITS = StrainLimits(lag_high_ms=100, lag_low_ms=40, cpu_high_share=0.8, cpu_low_share=0.6)


class Rig:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board = FakeLoadBoard(self.clock)
        self.cpu_s = 0.0
        self.watch = LoadWatch(self.board, self.clock, burst_capacity_turns=20)
        self.monitor = LoadMonitor(
            worker="task-1",
            board=self.board,
            watch=self.watch,
            count=lambda: SlotCount(8, 3),
            limits=LIMITS,
            cpu=CpuMeter(self.clock, 1.0, lambda: self.cpu_s),
            sample_ms=1_000,
            clock=self.clock,
            metrics=Metrics("burstchat", "orchestrator", self.clock, io.StringIO()),
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_sample_is_published_each_period_and_the_fleet_is_read(rig: Rig):
    running = asyncio.create_task(rig.monitor.run())
    rig.board.queued_at_ms["t1"] = rig.clock.now_ms()
    await rig.clock.advance(2.5)
    running.cancel()

    (sample,) = rig.watch.fleet.samples
    assert (sample.worker, sample.slots, sample.running) == ("task-1", 8, 3)
    assert sample.at_ms == rig.clock.now_ms() - 500
    assert rig.watch.fleet.burst_waiting == 1
    assert rig.monitor.strain == "none"


async def test_b18_a_late_loop_strains_the_task(rig: Rig):
    running = asyncio.create_task(rig.monitor.run())
    await asyncio.sleep(0)
    for _ in range(5):
        rig.clock.skip(0.3)  # the loop was busy: sleepers are woken late
        await rig.clock.advance(0)
    assert rig.monitor.strain == "lag"
    await rig.clock.advance(2)
    assert rig.monitor.strain == "none"
    running.cancel()


async def test_a_busy_processor_strains_the_task(rig: Rig):
    rig.clock.skip(1)
    rig.cpu_s = 0.9
    await rig.monitor.sample()
    assert rig.monitor.strain == "cpu"


async def test_a_board_that_is_away_does_not_stop_the_monitor(rig: Rig):
    await rig.monitor.sample()
    known = rig.watch.fleet
    rig.board.available = False
    await rig.monitor.sample()
    assert rig.watch.fleet == known


async def test_ended_turns_give_the_mean(rig: Rig):
    rig.monitor.turn_ended(2_000)
    await rig.monitor.sample()
    assert rig.watch.fleet.samples[0].mean_turn_ms == 2_000
