"""The orchestrator process: its parts, and the order in which it starts, drains and stops."""

from __future__ import annotations

from dataclasses import dataclass

from services.http_server import HttpServer, listen
from services.lifecycle import Part, StopSignals, run_parts
from services.orchestrator.cpu_usage import CpuMeter, usable_cpus
from services.orchestrator.dispatch import HeadDispatcher
from services.orchestrator.inline_runner import InlineRunner
from services.orchestrator.intake import IntakeApp
from services.orchestrator.load_monitor import LoadMonitor
from services.orchestrator.placement import Placement
from services.orchestrator.stats import OrchestratorStats
from services.orchestrator.tenant_shares import TenantShares
from services.orchestrator.worker_background import WorkerBackground
from services.start import start_process
from shared.bootstrap.adapters import push_credential
from shared.bootstrap.limits import burst_limits, sweep_limits
from shared.bootstrap.worker import Worker, open_worker
from shared.clock import Clock, Randomness
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.policy.admission import StrainLimits
from shared.policy.waiting_shares import WaitingShares
from shared.ports import SessionQueue, TurnDispatcher, TurnQueue
from shared.settings import Settings
from shared.telemetry import Log, Metrics, bind
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult

_log = Log("orchestrator")


async def main() -> None:
    """Run one orchestrator until a signal ends it. Raises ConfigurationError before anything was taken."""
    start = start_process("orchestrator")
    await run_orchestrator(start.settings, start.clock, start.randomness, start.signals)


async def run_orchestrator(
    settings: Settings, clock: Clock, randomness: Randomness, signals: StopSignals
) -> None:
    """Serve turns until `signals`, then refuse new ones, finish the running ones and stop."""
    metrics = Metrics(settings.telemetry.metrics_namespace, "orchestrator", clock)
    name = f"orchestrator-{randomness.token_bytes(4).hex()}"
    parts: _Parts

    async def place(request: TurnRequest) -> IntakeDecision:
        return await parts.placement.submit(request)

    def dispatcher(turn_queue: TurnQueue, sessions: SessionQueue) -> TurnDispatcher:
        return HeadDispatcher(place, QueueDispatcher(turn_queue, sessions, clock))

    async with open_worker(
        settings,
        "orchestrator",
        worker=name,
        dispatcher=dispatcher,
        clock=clock,
        randomness=randomness,
        metrics=metrics,
    ) as worker:
        parts = _build(settings, worker, name, clock, metrics)
        app = IntakeApp(
            placement=parts.placement,
            watch=worker.watch,
            credential=push_credential(settings),
            clock=clock,
        )
        # Not before everything else is open: until then gateways shall be refused at once, not wait.
        listener = listen(
            settings.gateway.bind_host, settings.orchestrator.intake_port, "BURSTCHAT_INTAKE_PORT"
        )
        server = HttpServer("intake", app, listener)
        sweeper = make_sweeper(
            _sweep_ports(worker, parts.placement, dispatcher(worker.turn_queue, worker.sessions)),
            sweeper=name,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            limits=sweep_limits(settings),
            interval_ms=settings.turn.sweep_interval_ms,
            ended=worker.analytics.ended,
        )
        stats = OrchestratorStats(lambda: parts.runner.count, metrics, clock)
        running: list[Part] = [
            WorkerBackground(worker.background),
            parts.monitor,
            stats,
            sweeper,
            server,
        ]

        async def drain() -> None:
            parts.placement.close()
            await parts.runner.drain()
            await parts.placement.settle()

        with bind(worker=name):
            _log.info("orchestrator.ready", port=server.port)
            try:
                await run_parts(
                    running,
                    drain=drain,
                    drain_limit_s=settings.orchestrator.orchestrator_drain_ms / 1000,
                    signals=signals,
                )
            finally:
                await parts.runner.close()
                await parts.placement.settle()


@dataclass(frozen=True)
class _Parts:
    runner: InlineRunner
    monitor: LoadMonitor
    placement: Placement


def _sweep_ports(worker: Worker, placement: Placement, dispatcher: TurnDispatcher) -> SweepPorts:
    return SweepPorts(
        due=worker.due,
        claims=worker.claims,
        sessions=worker.sessions,
        store=worker.store,
        push=worker.push,
        queue=worker.turn_queue,
        dead_letters=worker.dead_letters,
        intake=placement,
        dispatcher=dispatcher,
    )


def _build(settings: Settings, worker: Worker, name: str, clock: Clock, metrics: Metrics) -> _Parts:
    limits = settings.orchestrator
    shares = TenantShares(limits.inline_slots)

    async def run(request: TurnRequest) -> TurnResult:
        return await worker.engine.pipeline.run(request, "inline")

    runner = InlineRunner(
        slots=limits.inline_slots,
        shares=shares,
        run=run,
        turn_ended=lambda duration_ms: monitor.turn_ended(duration_ms),
        clock=clock,
    )
    monitor = LoadMonitor(
        worker=name,
        board=worker.load,
        count=lambda: runner.count,
        limits=StrainLimits(
            lag_high_ms=limits.lag_high_ms,
            lag_low_ms=limits.lag_low_ms,
            cpu_high_share=limits.cpu_high_share,
            cpu_low_share=limits.cpu_low_share,
        ),
        cpu=CpuMeter(clock, usable_cpus()),
        sample_ms=limits.load_sample_ms,
        clock=clock,
        model_wait_ms=worker.budget.expected_wait_ms,
    )
    placement = Placement(
        runner=runner,
        monitor=monitor,
        watch=worker.watch,
        shares=shares,
        waiting=WaitingShares(),
        queue=worker.turn_queue,
        sessions=worker.sessions,
        limits=burst_limits(settings),
        send_timeout_ms=limits.intake_send_timeout_ms,
        clock=clock,
        metrics=metrics,
    )
    return _Parts(runner, monitor, placement)
