"""Queues and tasks as a test says they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.contracts.turns import QueueName
from shared.errors import DependencyUnavailable


@dataclass
class FakeQueueGauges:
    """`available` False makes every call fail."""

    waiting: dict[QueueName, int] = field(default_factory=dict)
    ages_s: dict[QueueName, float] = field(default_factory=dict)
    available: bool = True

    async def depths(self) -> Mapping[QueueName, int]:
        self._ask()
        return dict(self.waiting)

    async def oldest_s(self) -> Mapping[QueueName, float]:
        self._ask()
        return dict(self.ages_s)

    def _ask(self) -> None:
        if not self.available:
            raise DependencyUnavailable("queue gauges")


@dataclass
class FakeRunningTasks:
    """`running` None makes the call fail."""

    running: int | None = 1

    async def count(self) -> int:
        if self.running is None:
            raise DependencyUnavailable("running tasks")
        return self.running
