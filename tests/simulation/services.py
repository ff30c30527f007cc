"""The long-lived processes of a run: the product's own parts, over simulated ports."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import msgspec

from services.gateway.composition import build_gateway
from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.dispatch import HeadDispatcher
from services.orchestrator.inline_runner import InlineRunner
from services.orchestrator.load_monitor import LoadMonitor
from services.orchestrator.placement import Placement
from services.orchestrator.queue_runner.consumer import Consumer
from services.orchestrator.queue_runner.delivery import Delivery
from services.orchestrator.queue_runner.slots import QueueSlots
from services.orchestrator.tenant_shares import TenantShares
from shared.bootstrap.gateway import GatewayPorts
from shared.bootstrap.limits import receive_limits, sweep_limits, turn_limits
from shared.contracts.identifiers import SessionId, new_turn_id
from shared.contracts.ledger import AcceptedDetached
from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import DependencyUnavailable
from shared.policy.admission import BurstLimits, StrainLimits
from shared.policy.receiving import ReceivePlan
from shared.policy.waiting_shares import WaitingShares
from shared.ports import TurnDispatcher
from shared.settings import Role
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.interruption import Interruption
from shared.turn.load_watch import LoadWatch
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult
from tests.fakes.allowances import FakeAllowances
from tests.fakes.knowledge import FakeIntentClassifier, fake_sources
from tests.fakes.limits import answer_plan, flush_limits, push_limits
from tests.simulation.clients import Client
from tests.simulation.loop import Process
from tests.simulation.queues import Inbox
from tests.simulation.sockets import SimSocket
from tests.simulation.surroundings import DRAIN_MS, Ports, Surroundings


def make_engine(
    world: Surroundings, process: Process, ports: Ports, dispatcher: TurnDispatcher, role: Role
) -> TurnEngine:
    """The engine of a worker process."""
    return TurnEngine(
        TurnPorts(
            claims=ports.ledger,
            followers=ports.ledger,
            store=ports.store,
            push=ports.push,
            model=world.model.client(process),  # type: ignore[arg-type]
            classifier=FakeIntentClassifier({}),
            sources=fake_sources(),
            dispatcher=dispatcher,
            dead_letters=ports.queue.dead_letters,
        ),
        system_prompt=lambda: "You are simulated.",
        plan=lambda: answer_plan("sim"),
        worker=process.name,
        clock=process.clock,
        randomness=ports.randomness,
        metrics=ports.metrics,
        limits=turn_limits(world.settings, role),
        flush=flush_limits(tick_ms=world.settings.turn.flush_tick_ms),
        pushes=push_limits(),
    )


class _NoServer:
    """In place of an HTTP server: nothing listens."""

    name = "no_server"

    def __init__(self, *args: Any, **options: Any) -> None: ...


class Gateway:
    """One gateway process: sockets on one side, the Management API on the other."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.endpoint = f"http://{process.name}"
        self.is_draining = False
        self._world = world
        self._ports = ports = Ports(world, process)
        found: list[Any] = []
        parts = dict.fromkeys(("HttpServer", "ManagementApi", "GatewayStats", "WebPage"), _NoServer)
        with (
            patch.multiple(
                "services.gateway.composition",
                build_rest=lambda *args, **options: None,
                PublicApi=lambda sockets, *args, **options: found.append(sockets),
                _own_endpoint=lambda listener: self.endpoint,
                **parts,
            ),
            patch.object(_NoServer, "snapshot", None, create=True),
        ):
            gateway = build_gateway(
                world.settings,
                GatewayPorts(
                    queue=ports.ledger,
                    claims=ports.ledger,
                    followers=ports.ledger,
                    registry=ports.registry,
                    allowances=FakeAllowances(ports.ledger),
                    store=ports.store,
                    intake=ports.intake,
                    turn_queue=ports.queue,
                    load=ports.board,
                    push=ports.push,
                    due=ports.due,
                    dead_letters=ports.queue.dead_letters,
                ),
                public_listener=None,  # type: ignore[arg-type]
                private_listener=None,  # type: ignore[arg-type]
                clock=process.clock,
                randomness=ports.randomness,
                metrics=ports.metrics,
            )
        (self._sockets,) = found
        self._connections = gateway.connections
        self._drain = gateway.drain
        for part in gateway.parts:
            if not isinstance(part, _NoServer):
                process.start(part.run())
        world.gateways[self.endpoint] = self

    def open(self, client: Client, session_id: SessionId) -> SimSocket:
        """The balancer sends a handshake here."""
        socket = SimSocket(
            self._world.network,
            self.process,
            client,
            write_high_bytes=self._world.sizes.write_high_bytes,
        )
        scope = socket.scope(session_id)
        self.process.call(
            lambda: self.process.start(self._sockets(scope, socket.receive, socket.send)),
            after_s=self._world.network.latency_s(),
        )
        return socket

    def deliver(self, frame: PushFrame) -> PushStatus:
        """The Management API's POST, for one frame."""
        return self._connections.deliver(frame.connection_id, frame.data)

    def ask_later(self, request: TurnRequest) -> None:
        """A message whose sender does not wait: accepted and put on the queue of its priority."""
        self.process.start(self._ask_later(request))

    async def _ask_later(self, request: TurnRequest) -> None:
        now_ms = self.process.clock.now_ms()
        request = msgspec.structs.replace(
            request,
            turn_id=new_turn_id(request.session_id, now_ms, self._ports.randomness.token_bytes(10)),
            accepted_at_ms=now_ms,
        )
        queues = QueueDispatcher(self._ports.queue, self._ports.ledger, self.process.clock)
        with suppress(DependencyUnavailable):
            answer = await self._ports.ledger.accept(request, None)
            if isinstance(answer, AcceptedDetached):
                await queues.dispatch(request)

    def drain(self) -> None:
        """SIGTERM: as services/lifecycle.py does, then the process is gone."""
        self.is_draining = True
        self.process.start(self._leave())

    async def _leave(self) -> None:
        await self._drain()
        self.process.kill()


class Orchestrator:
    """One orchestrator process: intake, inline slots, sweeper."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.is_draining = False
        ports = Ports(world, process)
        clock, limits = process.clock, world.settings.orchestrator
        dispatcher = HeadDispatcher(
            lambda request: self._placement.submit(request),
            QueueDispatcher(ports.queue, ports.ledger, clock),
        )
        self._engine = make_engine(world, process, ports, dispatcher, "orchestrator")
        watch = LoadWatch(ports.board, clock, burst_capacity_turns=limits.burst_capacity_turns)
        shares = TenantShares(limits.inline_slots)
        self._runner = InlineRunner(
            slots=limits.inline_slots,
            shares=shares,
            run=self._run,
            turn_ended=lambda duration_ms: monitor.turn_ended(duration_ms),
            clock=clock,
        )
        monitor = LoadMonitor(
            worker=process.name,
            board=ports.board,
            count=lambda: self._runner.count,
            limits=StrainLimits(
                lag_high_ms=100, lag_low_ms=40, cpu_high_share=0.8, cpu_low_share=0.6
            ),
            cpu=CpuMeter(clock, 1.0, used_s=lambda: 0.0),
            sample_ms=1_000,
            clock=clock,
        )
        self._placement = Placement(
            runner=self._runner,
            monitor=monitor,
            watch=watch,
            shares=shares,
            waiting=WaitingShares(),
            queue=ports.queue,
            sessions=ports.ledger,
            limits=BurstLimits(
                capacity_turns=limits.burst_capacity_turns,
                waiting_turns=limits.waiting_burst_limit,
                wait_ms=world.settings.turn.stale_after_ms,
            ),
            send_timeout_ms=400,
            clock=clock,
            metrics=ports.metrics,
        )
        process.start(self._engine.run())
        process.start(watch.run())
        # Without the probe of the loop's lag: virtual time never lags, and a probe costs 20 steps a second.
        process.start(monitor._publish())
        sweeper = make_sweeper(
            SweepPorts(
                due=ports.due,
                claims=ports.ledger,
                sessions=ports.ledger,
                store=ports.store,  # type: ignore[arg-type]
                push=ports.push,
                queue=ports.queue,
                dead_letters=ports.queue.dead_letters,
                intake=self._placement,
                dispatcher=dispatcher,
            ),
            sweeper=process.name,
            clock=clock,
            randomness=ports.randomness,
            metrics=ports.metrics,
            limits=sweep_limits(world.settings),
            interval_ms=world.settings.turn.sweep_interval_ms,
        )
        process.start(sweeper.run())

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        """`POST /turns`."""
        if self._placement.is_closed:
            raise DependencyUnavailable("draining")
        return await self._placement.submit(request)

    def drain(self) -> None:
        """SIGTERM with a short limit: what still runs is handed over, then the process is gone."""
        self.is_draining = True
        self.process.start(self._drain())

    async def _run(self, request: TurnRequest) -> TurnResult:
        return await self._engine.pipeline.run(request, "inline")

    async def _drain(self) -> None:
        self._placement.close()
        waiting = asyncio.ensure_future(self._runner.drain())
        await asyncio.wait([waiting], timeout=DRAIN_MS / 1000)
        waiting.cancel()
        await self._runner.close()
        await self._placement.settle()
        await asyncio.wait([asyncio.ensure_future(self._engine.close())], timeout=2.0)
        self.process.kill()


class QueueRunner:
    """The queue_runner process: consumers of the deferred and background queues, and their slots."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.is_draining = False
        ports = Ports(world, process)
        clock, limits = process.clock, world.settings.queue_runner
        dispatcher = QueueDispatcher(ports.queue, ports.ledger, clock)
        self._engine = make_engine(world, process, ports, dispatcher, "queue_runner")
        orchestrators = world.settings.orchestrator
        watch = LoadWatch(
            ports.board, clock, burst_capacity_turns=orchestrators.burst_capacity_turns
        )
        inbox = Inbox(world.queues)
        delivery = Delivery(
            run=self._run,
            queue=ports.queue,
            inbox=inbox,
            dead_letters=ports.queue.dead_letters,
            visibility_s=limits.queue_visibility_s,
            extend_s=limits.queue_extend_s,
            clock=clock,
            metrics=ports.metrics,
        )
        plan = ReceivePlan(receive_limits(world.settings))
        self._slots = QueueSlots(
            plan=plan,
            watch=watch,
            deliver=delivery.deliver,
            give_back=delivery.give_back,
            clock=clock,
        )
        process.start(self._engine.run())
        process.start(watch.run())
        process.start(self._slots.run())
        for number in range(limits.queue_consumers):
            consumer = Consumer(
                number,
                slots=self._slots,
                inbox=inbox,
                visibility_s=limits.queue_visibility_s,
                clock=clock,
                randomness=ports.randomness,
            )
            process.start(consumer.run())

    def drain(self) -> None:
        """SIGTERM with a short limit: what still runs is given back, then the process is gone."""
        self.is_draining = True
        self.process.start(self._leave())

    async def _run(self, request: TurnRequest, give_up: Interruption) -> TurnResult:
        return await self._engine.pipeline.run(request, "queue", give_up=give_up)

    async def _leave(self) -> None:
        self._slots.close()
        await asyncio.wait([asyncio.ensure_future(self._slots.drain())], timeout=DRAIN_MS / 1000)
        await self._slots.cut()
        self.process.kill()
