import asyncio
import io
import json
import logging
from contextlib import asynccontextmanager

import pytest

from functions.burst_worker.environment import Environment
from shared.telemetry import Log, configure_logging
from tests.fakes.clock import FakeClock

log = Log("test")


class Context:
    function_version = "7"

    def __init__(self, request_id: str = "r1") -> None:
        self.aws_request_id = request_id

    def get_remaining_time_in_millis(self) -> int:
        return 75_000


class FakeWorker:
    def __init__(self) -> None:
        self.is_broken = False
        self.loops: list[int] = []
        self.error: Exception | None = None
        self.ticks = asyncio.Event()
        self.background = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            await self.ticks.wait()
            self.ticks.clear()
            log.info("background")

    async def handle(self, event, remaining_ms):
        self.loops.append(id(asyncio.get_running_loop()))
        self.ticks.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.info("handled")
        if self.error:
            raise self.error
        return {"batchItemFailures": [], "remaining_ms": remaining_ms()}


class Rig:
    def __init__(self) -> None:
        self.opened: list[FakeWorker] = []
        self.closed = 0
        self.versions: list[str] = []
        self.environment = Environment(self.open)

    @asynccontextmanager
    async def open(self, version: str):
        self.versions.append(version)
        worker = FakeWorker()
        self.opened.append(worker)
        try:
            yield worker
        finally:
            self.closed += 1
            worker.background.cancel()
            await asyncio.wait([worker.background])

    def invoke(self, request_id: str = "r1"):
        return self.environment.invoke({}, Context(request_id))


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.environment.shut_down()


def test_nothing_is_opened_before_the_first_invocation(rig):
    assert rig.opened == []


def test_every_invocation_uses_the_same_loop_and_worker(rig):
    assert rig.invoke() == rig.invoke() == {"batchItemFailures": [], "remaining_ms": 75_000}
    (worker,) = rig.opened
    assert len(set(worker.loops)) == 1
    assert len(worker.loops) == 2
    assert rig.versions == ["7"]


def test_a_broken_worker_is_replaced_at_the_next_invocation(rig):
    rig.invoke()
    rig.opened[0].is_broken = True
    rig.invoke()
    assert len(rig.opened) == 2
    assert rig.closed == 1


def test_an_invocation_that_raised_leaves_the_environment_usable(rig):
    rig.invoke()
    rig.opened[0].error = RuntimeError()
    with pytest.raises(RuntimeError):
        rig.invoke()
    rig.opened[0].error = None
    rig.invoke()
    assert len(rig.opened) == 1


@pytest.mark.case("B-37")
def test_background_tasks_carry_no_ids_of_the_invocation_that_began_them(rig):
    stream = io.StringIO()
    loggers = logging.getLogger(), logging.getLogger("burstchat")
    before = loggers[0].handlers[:], loggers[0].level, loggers[1].level
    configure_logging("burst_worker", "info", FakeClock(), stream)
    try:
        rig.invoke("r1")
        rig.invoke("r2")
    finally:
        loggers[0].handlers[:] = before[0]
        loggers[0].setLevel(before[1])
        loggers[1].setLevel(before[2])
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("request_id") for line in lines if line["event"] == "handled"] == ["r1", "r2"]
    assert [line.get("request_id") for line in lines if line["event"] == "background"] == [None] * 2


def test_shutting_down_closes_the_worker_once(rig):
    rig.invoke()
    rig.environment.shut_down()
    rig.environment.shut_down()
    assert rig.closed == 1
