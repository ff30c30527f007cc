"""What one execution environment of the burst worker is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from functions.burst_worker.batch import TurnBatch
from functions.burst_worker.messages import read_messages
from functions.sqs_batch import batch_answer
from shared.bootstrap.worker import Worker, open_worker
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.turns import TurnRequest
from shared.settings import Settings, load_settings
from shared.telemetry import Log, Metrics, bind, configure_logging
from shared.turn.interruption import Interruption
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult

PUSH_PATIENCE_S = 2.5
"""How long the last pushes of a batch may take: what is under way when the platform freezes us arrives late."""

_log = Log("burst_worker")


class BurstWorker:
    """A worker and the batches that it runs."""

    def __init__(
        self, worker: Worker, batch: TurnBatch, *, name: str, retry_queue_name: str
    ) -> None:
        self._worker = worker
        self._batch = batch
        self._name = name
        self._retry_queue_name = retry_queue_name

    @property
    def is_broken(self) -> bool:
        """True when the flusher or the claim keeper has ended."""
        return self._worker.background.done()

    async def handle(
        self, event: dict[str, Any], remaining_ms: Callable[[], int]
    ) -> dict[str, Any]:
        """Run the batch; returns when its frames and events have left, or after PUSH_PATIENCE_S."""
        messages = read_messages(event, self._retry_queue_name)
        with bind(worker=self._name):
            _log.info("batch.received", messages=len(messages))
            returned = await self._batch.run(messages, remaining_ms())
            await asyncio.gather(
                self._let_pushes_arrive(),
                # What is not told now, nobody learns before the environment thaws.
                self._worker.budget.flush(),
                self._worker.analytics.flush(),
            )
            _log.info("batch.settled", messages=len(messages), returned=len(returned))
        return batch_answer(returned)

    async def _let_pushes_arrive(self) -> None:
        try:
            async with asyncio.timeout(PUSH_PATIENCE_S):
                await self._worker.engine.close()
        except TimeoutError:
            _log.warning("batch.pushes_left")


@asynccontextmanager
async def burst_worker(function_version: str) -> AsyncIterator[BurstWorker]:
    """Read the settings, open the worker. Raises ConfigurationError or DependencyUnavailable; nothing stays open."""
    clock, randomness = SystemClock(), SystemRandomness()
    settings = load_settings("burst_worker")
    configure_logging("burst_worker", settings.telemetry.log_level, clock)
    metrics = Metrics(settings.telemetry.metrics_namespace, "burst_worker", clock)
    name = f"burst_worker-{function_version}-{randomness.token_bytes(4).hex()}"
    async with open_worker(
        settings,
        "burst_worker",
        worker=name,
        dispatcher=lambda queue, sessions: QueueDispatcher(queue, sessions, clock),
        clock=clock,
        randomness=randomness,
        metrics=metrics,
    ) as worker:
        metrics.count("ColdStarts")
        _log.info("worker.opened", worker=name)
        yield _assemble(settings, worker, name, clock, metrics)


def _assemble(
    settings: Settings, worker: Worker, name: str, clock: SystemClock, metrics: Metrics
) -> BurstWorker:
    async def run(request: TurnRequest, give_up: Interruption) -> TurnResult:
        return await worker.engine.pipeline.run(request, "burst", give_up=give_up)

    batch = TurnBatch(
        run=run,
        queue=worker.turn_queue,
        inbox=worker.turn_inbox,
        dead_letters=worker.dead_letters,
        clock=clock,
        metrics=metrics,
    )
    retry_queue_name = urlsplit(settings.aws.retry_queue_url).path.rpartition("/")[2]
    return BurstWorker(worker, batch, name=name, retry_queue_name=retry_queue_name)
