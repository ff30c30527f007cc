"""The queue_runner process: its parts, and the order in which it starts, drains and stops."""

from __future__ import annotations

from collections.abc import Sequence

from services.http_server import HttpServer, listen
from services.lifecycle import Part, StopSignals, run_parts
from services.orchestrator.health import HealthApp, board_faults
from services.orchestrator.queue_runner.consumer import Consumer
from services.orchestrator.queue_runner.delivery import Delivery
from services.orchestrator.queue_runner.slots import QueueSlots
from services.orchestrator.worker_background import WorkerBackground
from services.start import start_process
from shared.bootstrap.limits import receive_limits
from shared.bootstrap.worker import Worker, open_worker
from shared.clock import Clock, Randomness
from shared.contracts.turns import TurnRequest
from shared.policy.admission import DRAINING
from shared.policy.receiving import ReceivePlan
from shared.settings import Settings
from shared.telemetry import Log, Metrics, bind
from shared.turn.interruption import Interruption
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult

SQS_PATIENCE_S = 30.0

_log = Log("queue_runner")


async def main() -> None:
    """Run one queue_runner until a signal ends it. Raises ConfigurationError before anything was received."""
    start = start_process("queue_runner")
    await run_queue_runner(start.settings, start.clock, start.randomness, start.signals)


async def run_queue_runner(
    settings: Settings, clock: Clock, randomness: Randomness, signals: StopSignals
) -> None:
    """Drain the queues until `signals`, or until a part crashes; then receive no more, finish and stop.

    What still runs at the drain's limit is handed over: its next attempt goes to a queue, for another process.
    """
    limits = settings.queue_runner
    metrics = Metrics(settings.telemetry.metrics_namespace, "queue_runner", clock)
    name = f"queue_runner-{randomness.token_bytes(4).hex()}"
    async with open_worker(
        settings,
        "queue_runner",
        worker=name,
        dispatcher=lambda queue, sessions: QueueDispatcher(queue, sessions, clock),
        clock=clock,
        randomness=randomness,
        metrics=metrics,
    ) as worker:
        slots = _make_slots(worker, settings, clock, metrics)
        consumers = [
            Consumer(
                number,
                slots=slots,
                inbox=worker.turn_inbox,
                visibility_s=limits.queue_visibility_s,
                clock=clock,
                randomness=randomness,
            )
            for number in range(limits.queue_consumers)
        ]

        def failing() -> dict[str, str]:
            draining = {"queues": DRAINING} if slots.is_closed else {}
            return draining | board_faults(worker.watch, clock) | _sqs_faults(consumers, clock)

        listener = listen(
            settings.gateway.bind_host, limits.queue_runner_port, "BURSTCHAT_QUEUE_RUNNER_PORT"
        )
        server = HttpServer("health", HealthApp(failing), listener)
        running: list[Part] = [WorkerBackground(worker.background), slots, server, *consumers]

        async def drain() -> None:
            slots.close()
            await slots.drain()

        with bind(worker=name):
            _log.info("queue_runner.ready", port=server.port)
            try:
                await run_parts(
                    running,
                    drain=drain,
                    drain_limit_s=limits.queue_runner_drain_ms / 1000,
                    signals=signals,
                )
            finally:
                await slots.cut()


def _make_slots(worker: Worker, settings: Settings, clock: Clock, metrics: Metrics) -> QueueSlots:
    limits = settings.queue_runner

    async def run(request: TurnRequest, give_up: Interruption) -> TurnResult:
        return await worker.engine.pipeline.run(request, "queue", give_up=give_up)

    delivery = Delivery(
        run=run,
        queue=worker.turn_queue,
        inbox=worker.turn_inbox,
        dead_letters=worker.dead_letters,
        visibility_s=limits.queue_visibility_s,
        extend_s=limits.queue_extend_s,
        clock=clock,
        metrics=metrics,
    )
    return QueueSlots(
        plan=ReceivePlan(receive_limits(settings)),
        watch=worker.watch,
        deliver=delivery.deliver,
        give_back=delivery.give_back,
        clock=clock,
    )


def _sqs_faults(consumers: Sequence[Consumer], clock: Clock) -> dict[str, str]:
    since_s = [each.failed_since_s for each in consumers if each.failed_since_s is not None]
    if not since_s or clock.monotonic_s() - min(since_s) < SQS_PATIENCE_S:
        return {}
    return {"sqs": f"no answer for {clock.monotonic_s() - min(since_s):.0f} s"}
