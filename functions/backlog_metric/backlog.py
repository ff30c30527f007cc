"""Queues, tasks and slots of this minute as metrics that scaling policies and alarms follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

import msgspec

from shared.contracts.load import FleetLoad
from shared.contracts.turns import QueueName
from shared.errors import ChatError
from shared.policy.scaling import backlog_per_task
from shared.ports import LoadBoard, QueueGauges, RunningTasks
from shared.telemetry import Log, Metrics

_log = Log("backlog_metric")
Value = TypeVar("Value")


class Signals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was published; None and absent = nobody could say, and nothing was published for it."""

    depths: Mapping[QueueName, int] | None = None
    oldest_s: Mapping[QueueName, float] | None = None
    tasks: int | None = None
    backlog_per_task: float | None = None
    running_per_slot: float | None = None


class BacklogMetric:
    """Asks everybody at once. One who does not answer leaves a gap in its own metric alone."""

    def __init__(
        self,
        *,
        queues: QueueGauges,
        tasks: RunningTasks,
        board: LoadBoard,
        drained: Sequence[QueueName],
        metrics: Metrics,
    ) -> None:
        """`drained` are the queues whose messages the counted tasks work on."""
        self._queues = queues
        self._tasks = tasks
        self._board = board
        self._drained = drained
        self._metrics = metrics

    async def publish(self) -> Signals:
        """Measure and publish once. Raises nothing of its dependencies."""
        depths, oldest_s, tasks, load = await asyncio.gather(
            _answer("depths", self._queues.depths()),
            _answer("oldest", self._queues.oldest_s()),
            _answer("tasks", self._tasks.count()),
            _answer("load", self._board.read()),
        )
        signals = Signals(
            depths=depths,
            oldest_s=oldest_s,
            tasks=tasks,
            backlog_per_task=self._backlog_per_task(depths, tasks),
            running_per_slot=None if load is None else _running_per_slot(load),
        )
        self._emit(signals)
        return signals

    def _backlog_per_task(
        self, depths: Mapping[QueueName, int] | None, tasks: int | None
    ) -> float | None:
        if depths is None or tasks is None:
            return None
        return backlog_per_task(self._depth(depths), tasks)

    def _depth(self, depths: Mapping[QueueName, int]) -> int:
        return sum(depths.get(queue, 0) for queue in self._drained)

    def _emit(self, signals: Signals) -> None:
        for queue, depth in (signals.depths or {}).items():
            self._metrics.gauge("QueueDepth", depth, queue=queue)
        for queue, age_s in (signals.oldest_s or {}).items():
            self._metrics.gauge("QueueOldestS", age_s, queue=queue)
        if signals.tasks is not None:
            self._metrics.gauge("QueueRunnerTasks", signals.tasks)
        if signals.backlog_per_task is not None:
            self._metrics.gauge("BacklogPerTask", signals.backlog_per_task)
            # Target tracking multiplies the tasks there are: from none, somebody else must start the first.
            waiting = 0 if signals.tasks else signals.backlog_per_task
            self._metrics.gauge("BacklogWithoutTasks", waiting)
        if signals.running_per_slot is not None:
            self._metrics.gauge("RunningPerSlot", signals.running_per_slot)


def _running_per_slot(load: FleetLoad) -> float | None:
    slots = sum(sample.slots for sample in load.samples)
    return sum(sample.running for sample in load.samples) / slots if slots else None


async def _answer(what: str, asked: Awaitable[Value]) -> Value | None:
    try:
        return await asked
    except ChatError as error:
        _log.warning("signal.missing", signal=what, error_type=type(error).__name__)
        return None
