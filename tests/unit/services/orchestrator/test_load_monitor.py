import asyncio

import pytest

from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.load_monitor import LoadMonitor
from shared.contracts.load import LoadSample
from shared.policy.admission import SlotCount, StrainLimits
from tests.fakes.clock import FakeClock
from tests.fakes.load_board import FakeLoadBoard

LIMITS = StrainLimits(lag_high_ms=100, lag_low_ms=40, cpu_high_share=0.8, cpu_low_share=0.6)


class Rig:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board = FakeLoadBoard(self.clock)
        self.cpu_s = 0.0
        self.monitor = LoadMonitor(
            worker="task-1",
            board=self.board,
            count=lambda: SlotCount(8, 3),
            limits=LIMITS,
            cpu=CpuMeter(self.clock, 1.0, lambda: self.cpu_s),
            sample_ms=1_000,
            clock=self.clock,
            model_wait_ms=lambda: 1_234.56,
        )

    async def published(self) -> LoadSample:
        (sample,) = (await self.board.read()).samples
        return sample


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_sample_is_published_each_period(rig: Rig):
    running = asyncio.create_task(rig.monitor.run())
    await rig.clock.advance(2.5)
    running.cancel()

    sample = await rig.published()
    assert (sample.worker, sample.slots, sample.running) == ("task-1", 8, 3)
    assert sample.model_wait_ms == 1_234.6
    assert sample.at_ms == rig.clock.now_ms() - 500
    assert rig.monitor.strain == "none"


@pytest.mark.case("B-18")
async def test_a_late_loop_strains_the_task(rig: Rig):
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
    await rig.monitor.sample()
    rig.clock.skip(1)
    rig.cpu_s = 0.9
    await rig.monitor.sample()
    assert rig.monitor.strain == "cpu"


async def test_a_board_that_is_away_does_not_stop_the_monitor(rig: Rig):
    rig.board.available = False
    await rig.monitor.sample()
    rig.board.available = True
    await rig.monitor.sample()
    assert (await rig.published()).worker == "task-1"


async def test_ended_turns_give_the_mean(rig: Rig):
    rig.monitor.turn_ended(2_000)
    await rig.monitor.sample()
    assert (await rig.published()).mean_turn_ms == 2_000
