"""The scaling signals: what is published, and what is left out when somebody does not answer."""

from __future__ import annotations

import io
import json

import pytest

from functions.backlog_metric.backlog import BacklogMetric, Signals
from shared.contracts.load import LoadSample
from shared.contracts.turns import QueueName
from shared.policy.receiving import served_queues
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.signals import FakeQueueGauges, FakeRunningTasks

FIFTY_WAIT: dict[QueueName, int] = {"burst": 7, "retry": 1, "deferred": 30, "background": 20}


class World:
    def __init__(self, consumer: str = "lambda") -> None:
        self.clock = FakeClock()
        self.queues = FakeQueueGauges(dict(FIFTY_WAIT), {"deferred": 12.0})
        self.tasks = FakeRunningTasks(5)
        self.board = FakeLoadBoard(self.clock)
        self.out = io.StringIO()
        self.metric = BacklogMetric(
            queues=self.queues,
            tasks=self.tasks,
            board=self.board,
            drained=served_queues("ecs" if consumer == "ecs" else "lambda"),
            metrics=Metrics("test", "backlog_metric", self.clock, self.out),
        )

    async def publish(self) -> Signals:
        return await self.metric.publish()

    def published(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in map(json.loads, self.out.getvalue().splitlines()):
            [definition] = line["_aws"]["CloudWatchMetrics"]
            [metric] = definition["Metrics"]
            name = metric["Name"] + (f":{line['Queue']}" if "Queue" in line else "")
            found[name] = line[metric["Name"]]
        return found

    async def run_turns(self, running: int, slots: int) -> None:
        await self.board.publish(
            LoadSample(
                worker=f"w{slots}",
                at_ms=self.clock.now_ms(),
                slots=slots,
                running=running,
                lag_ms=0,
                cpu_share=0,
                mean_turn_ms=0,
            )
        )


async def test_fifty_messages_for_five_tasks_are_ten_each() -> None:
    world = World()

    await world.publish()

    assert world.published()["BacklogPerTask"] == 10
    assert world.published()["QueueRunnerTasks"] == 5


async def test_who_drains_burst_as_well_has_its_backlog_too() -> None:
    world = World("ecs")

    signals = await world.publish()

    assert signals.backlog_per_task == 58 / 5


async def test_without_a_task_the_whole_backlog_calls_for_the_first() -> None:
    world = World()
    world.tasks.running = 0

    await world.publish()

    assert world.published()["BacklogPerTask"] == 50
    assert world.published()["BacklogWithoutTasks"] == 50


async def test_where_a_task_runs_nothing_calls_for_the_first() -> None:
    world = World()

    await world.publish()

    assert world.published()["BacklogWithoutTasks"] == 0


async def test_depth_and_age_are_published_per_queue() -> None:
    world = World()

    await world.publish()

    published = world.published()
    assert {f"QueueDepth:{queue}": depth for queue, depth in FIFTY_WAIT.items()}.items() <= (
        published.items()
    )
    assert published["QueueOldestS:deferred"] == 12.0
    assert "QueueOldestS:burst" not in published


async def test_running_turns_are_divided_by_the_slots_of_the_fleet() -> None:
    world = World()
    await world.run_turns(running=6, slots=8)
    await world.run_turns(running=1, slots=20)

    await world.publish()

    assert world.published()["RunningPerSlot"] == 0.25


async def test_without_a_task_that_has_slots_nothing_is_said_of_them() -> None:
    world = World()

    await world.publish()

    assert "RunningPerSlot" not in world.published()


@pytest.mark.parametrize(
    ("silent", "missing"),
    [
        ("queues", {"BacklogPerTask", "BacklogWithoutTasks", "QueueDepth:burst"}),
        ("tasks", {"BacklogPerTask", "BacklogWithoutTasks", "QueueRunnerTasks"}),
        ("board", {"RunningPerSlot"}),
    ],
)
async def test_who_does_not_answer_leaves_a_gap_in_its_own_metrics_alone(
    silent: str, missing: set[str]
) -> None:
    whole, world = World(), World()
    for each in (whole, world):
        await each.run_turns(running=1, slots=2)
    if silent == "queues":
        world.queues.available = False
    elif silent == "tasks":
        world.tasks.running = None
    else:
        world.board.available = False

    await whole.publish()
    await world.publish()

    assert missing <= whole.published().keys()
    assert missing.isdisjoint(world.published())
    assert world.published()
