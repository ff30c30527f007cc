"""What the scaling signals are read from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from shared.adapters.ecs_running_tasks import EcsRunningTasks, NoService
from shared.adapters.redis_load_board import RedisLoadBoard
from shared.bootstrap.adapters import FUNCTION_REDIS_CONNECTIONS, ProcessAdapters
from shared.clock import Clock, Randomness
from shared.ports import LoadBoard, QueueGauges, RunningTasks
from shared.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SignalPorts:
    """What the scaling signals are read from."""

    queues: QueueGauges
    tasks: RunningTasks
    board: LoadBoard


@asynccontextmanager
async def open_signal_ports(
    settings: Settings, clock: Clock, randomness: Randomness
) -> AsyncIterator[SignalPorts]:
    """The ports of backlog_metric, closed on leaving. Nothing is asked yet."""
    aws = settings.aws
    async with AsyncExitStack() as closing:
        adapters = ProcessAdapters(
            settings, clock, randomness, closing, redis_connections=FUNCTION_REDIS_CONNECTIONS
        )
        tasks: RunningTasks = NoService()
        if aws.queue_runner_service:
            tasks = EcsRunningTasks(
                adapters.aws_api("ecs", aws.signals_timeout_ms),
                cluster=aws.ecs_cluster,
                service=aws.queue_runner_service,
            )
        yield SignalPorts(
            queues=adapters.queue_gauges(),
            tasks=tasks,
            board=RedisLoadBoard(adapters.redis, clock),
        )
