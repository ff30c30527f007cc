import asyncio

from shared.policy.load_level import LoadLevel
from shared.turn.load_watch import NO_LOAD, LoadWatch
from tests.fakes.clock import FakeClock
from tests.fakes.load_board import FakeLoadBoard


def queue(board: FakeLoadBoard, turns: int) -> None:
    board.queued_at_ms = {str(number): 0 for number in range(turns)}


async def test_the_watch_knows_no_load_before_its_first_reading():
    clock = FakeClock()
    watch = LoadWatch(FakeLoadBoard(clock), clock, burst_capacity_turns=10)
    assert watch.fleet == NO_LOAD
    assert watch.level is LoadLevel.NORMAL


async def test_the_watch_reads_once_per_interval_and_follows_the_level():
    clock = FakeClock()
    board = FakeLoadBoard(clock)
    watch = LoadWatch(board, clock, burst_capacity_turns=10)
    running = asyncio.create_task(watch.run())
    queue(board, 30)
    await clock.advance(1)
    assert watch.fleet.burst_waiting == 30
    assert watch.level is LoadLevel.SEVERE
    queue(board, 0)
    await clock.advance(10.5)
    assert watch.level is LoadLevel.SEVERE
    await clock.advance(2)
    assert watch.level is LoadLevel.NORMAL
    running.cancel()


async def test_the_last_reading_stands_while_the_board_is_away():
    clock = FakeClock()
    board = FakeLoadBoard(clock)
    watch = LoadWatch(board, clock, burst_capacity_turns=10)
    queue(board, 5)
    await watch.refresh()
    board.available = False
    clock.skip(1)
    await watch.refresh()
    clock.skip(1)
    await watch.refresh()
    assert watch.fleet.burst_waiting == 5
    assert watch.failed_since_s == 1.0
    board.available = True
    await watch.refresh()
    assert watch.failed_since_s is None
