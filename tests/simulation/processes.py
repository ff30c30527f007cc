"""The processes of a run: the product's own parts, wired as their composition roots do, over simulated ports."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from functions.burst_worker.batch import TurnBatch
from functions.burst_worker.batch_event import QueueMessage
from services.gateway.cancelling import Cancelling
from services.gateway.chat import Chat
from services.gateway.connections import Connections
from services.gateway.door import Door
from services.gateway.drain import Drain
from services.gateway.endings import Endings
from services.gateway.followed_turns import TurnLimits as FollowLimits
from services.gateway.frames_in import InputLimits
from services.gateway.handshake import Handshakes
from services.gateway.history import History as StoredHistory
from services.gateway.identity import Identities
from services.gateway.lifetime import LifetimeLimits
from services.gateway.owner_lease import OwnerLease
from services.gateway.placing import Placing
from services.gateway.readiness import Readiness
from services.gateway.replaying import Replaying
from services.gateway.sending import Sending
from services.gateway.session import SessionLimits
from services.gateway.websocket import SocketLimits, WebSocketEndpoint
from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.dispatch import HeadDispatcher
from services.orchestrator.inline_runner import InlineRunner
from services.orchestrator.load_monitor import LoadMonitor
from services.orchestrator.placement import Placement
from services.orchestrator.tenant_shares import TenantShares
from shared.contracts.identifiers import OwnerId, SessionId
from shared.contracts.turns import IntakeDecision, Path, TurnRequest
from shared.errors import DependencyUnavailable
from shared.policy.admission import BurstLimits, StrainLimits
from shared.policy.limits import AnswerPlan, FlushLimits, PushLimits, TurnLimits
from shared.policy.sweeping import SweepLimits
from shared.ports import PushFrame, PushStatus, TurnDispatcher
from shared.telemetry import Metrics
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.load_watch import LoadWatch
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult
from tests.fakes.clock import FakeRandomness
from tests.fakes.knowledge import FakeIntentClassifier, FakeRetriever
from tests.fakes.turn_store import FakeTurnStore
from tests.simulation.clients import Client
from tests.simulation.loop import Process
from tests.simulation.model import SimModel
from tests.simulation.monitor import Monitor
from tests.simulation.network import IntakeTarget, Network, PushTarget, Remote, SimIntake, SimPush
from tests.simulation.queues import Message, QueueClient, SimQueues
from tests.simulation.redis import SimRedis
from tests.simulation.sockets import SimSocket

REDIS_TIMEOUT_S = 0.5
STORE_TIMEOUT_S = 2.0
PUSH_PATIENCE_S = 2.5


class SilentMetrics(Metrics):
    """Counts nothing: a run reads the history instead."""

    def _emit(self, name: str, value: float, unit: str, dimensions: Mapping[str, str]) -> None: ...


@dataclass
class Sizes:
    """What differs from run to run. Times in ms unless named otherwise."""

    slots: int = 4
    burst_capacity: int = 20
    batch: int = 5
    function_timeout_s: float = 75.0
    outbox_bytes: int = 262_144
    write_high_bytes: int = 32_768
    flush_tick_ms: int = 40
    user_turns_per_min: int = 0
    retry_in_process_limit_ms: int = 4_000


@dataclass
class Surroundings:
    """The services that every process talks to."""

    network: Network
    redis: SimRedis
    store: FakeTurnStore
    model: SimModel
    queues: SimQueues
    monitor: Monitor
    sizes: Sizes
    seed: int
    gateways: dict[str, PushTarget]
    doors: Callable[[], list[IntakeTarget]]


class Ports:
    """One process's clients of the surroundings."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        network, weather = world.network, world.network.weather
        observe = world.monitor.observer(process)

        def redis(service: Any) -> Any:
            return Remote(network, service, REDIS_TIMEOUT_S, observe, lambda: weather.redis_is_away)

        self.ledger = redis(world.redis.client())
        self.due = redis(world.redis.due)
        self.registry = redis(world.redis.registry)
        self.board = redis(world.redis.board)
        self.store = Remote(
            network,
            _Store(world.store, network, world.monitor.store_observer(process)),
            STORE_TIMEOUT_S,
            _observe_nothing,
        )
        self.queue = QueueClient(world.queues)
        self.push = SimPush(network, world.gateways.get, world.monitor.pushed)
        self.intake = SimIntake(network, world.doors)
        self.randomness = FakeRandomness(hash_of(world.seed, process.name))
        self.metrics = SilentMetrics("sim", process.name, process.clock, io.StringIO())


class _Store:
    """The table of turns in the present weather. A put whose answer got lost was made."""

    def __init__(
        self, store: FakeTurnStore, network: Network, stored: Callable[[Any], None]
    ) -> None:
        self._store = store
        self._network = network
        self._stored = stored

    async def put(self, turn: Any) -> Any:
        self._look()
        answer = await self._store.put(turn)
        if answer is None:
            self._stored(turn)
        weather = self._network.weather
        if weather.store_loses_answers and self._network.chance.random() < 0.6:
            raise DependencyUnavailable("the store's answer got lost")
        return answer

    async def get(self, turn: Any) -> Any:
        self._look()
        return await self._store.get(turn)

    async def newest(self, session: Any, *, limit: int, before: Any = None) -> Any:
        self._look()
        return await self._store.newest(session, limit=limit, before=before)

    def _look(self) -> None:
        if self._network.weather.store_is_away:
            raise DependencyUnavailable("the store is away")


def _observe_nothing(verb: str, args: Any, kwargs: Any, answer: Any) -> None: ...


def hash_of(seed: int, name: str) -> int:
    """A seed of its own for each part, the same in every process."""
    return random.Random(f"{seed}/{name}").getrandbits(48)


def sweep_limits() -> SweepLimits:
    return SweepLimits()


def make_engine(
    world: Surroundings,
    process: Process,
    ports: Ports,
    dispatcher: TurnDispatcher,
    retry_in_process_limit_ms: int | None,
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
            retriever=FakeRetriever(),
            dispatcher=dispatcher,
            dead_letters=ports.queue.dead_letters,
        ),
        system_prompt="You are simulated.",
        plan=lambda: AnswerPlan(model="sim"),
        worker=process.name,
        clock=process.clock,
        randomness=ports.randomness,
        metrics=ports.metrics,
        limits=TurnLimits(retry_in_process_limit_ms=retry_in_process_limit_ms),
        flush=FlushLimits(tick_ms=world.sizes.flush_tick_ms),
        pushes=PushLimits(),
    )


def start_sweeper(process: Process, ports: Ports, intake: Any, dispatcher: TurnDispatcher) -> None:
    """The backstop of a service."""
    sweeper = make_sweeper(
        SweepPorts(
            due=ports.due,
            claims=ports.ledger,
            sessions=ports.ledger,
            store=ports.store,
            push=ports.push,
            queue=ports.queue,
            dead_letters=ports.queue.dead_letters,
            intake=intake,
            dispatcher=dispatcher,
        ),
        sweeper=process.name,
        clock=process.clock,
        randomness=ports.randomness,
        metrics=ports.metrics,
        limits=sweep_limits(),
    )
    process.start(sweeper.run())


def burst_limits(world: Surroundings) -> BurstLimits:
    return BurstLimits(capacity_turns=world.sizes.burst_capacity, waiting_turns=50, wait_ms=45_000)


class Gateway:
    """One gateway process: sockets on one side, the Management API on the other."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.endpoint = f"http://{process.name}"
        self.is_draining = False
        self._world = world
        ports = Ports(world, process)
        clock = process.clock
        watch = LoadWatch(ports.board, clock, burst_capacity_turns=world.sizes.burst_capacity)
        door = Door(watch, burst_limits(world), world.sizes.user_turns_per_min, clock)
        self.connections = Connections(clock, door.queued_wait_ms)
        owner = OwnerId(process.name)
        self._lease = OwnerLease(ports.registry, owner, 1_500, clock)
        self._readiness = Readiness({"redis": lambda: self._lease.fault})
        placing = Placing(
            intake=ports.intake,
            turn_queue=ports.queue,
            sessions=ports.ledger,
            queues=QueueDispatcher(ports.queue, ports.ledger, clock),
            door=door,
            clock=clock,
        )
        endings = Endings(self.connections, ports.push, placing)
        self._drain = Drain(
            self.connections, self._readiness, endings, ports.randomness, window_ms=5_000
        )
        replaying = Replaying(ports.ledger, ports.store, clock)  # type: ignore[arg-type]
        self._sockets = WebSocketEndpoint(
            limits=_socket_limits(world.sizes),
            handshakes=Handshakes(
                identities=Identities(
                    mode="dev", secret="s" * 32, audience="", issuer="", clock=clock
                ),
                allowed_origins=(),
                trusted_proxies=0,
                address_handshakes_per_s=0,
                is_draining=lambda: self._readiness.is_draining,
                clock=clock,
                randomness=ports.randomness,
            ),
            connections=self.connections,
            registry=ports.registry,
            sessions=ports.ledger,
            followers=ports.ledger,
            perform=Chat(
                Sending(
                    sessions=ports.ledger,
                    claims=ports.ledger,
                    placing=placing,
                    endings=endings,
                    door=door,
                    clock=clock,
                    randomness=ports.randomness,
                    metrics=ports.metrics,
                ),
                replaying,
                Cancelling(
                    sessions=ports.ledger, replaying=replaying, endings=endings, clock=clock
                ),
                StoredHistory(ports.store, 98_304),  # type: ignore[arg-type]
            ).perform,
            endpoint=self.endpoint,
            owner=owner,
            clock=clock,
        )
        process.start(self._lease.run())
        process.start(watch.run())
        process.start(self.connections.run())
        start_sweeper(process, ports, ports.intake, placing)
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
        return self.connections.deliver(frame.connection_id, frame.data)

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
        clock, sizes = process.clock, world.sizes
        dispatcher = HeadDispatcher(
            lambda request: self._placement.submit(request),
            QueueDispatcher(ports.queue, ports.ledger, clock),
        )
        self._engine = make_engine(world, process, ports, dispatcher, None)
        watch = LoadWatch(ports.board, clock, burst_capacity_turns=sizes.burst_capacity)
        shares = TenantShares(sizes.slots)
        self._runner = InlineRunner(
            slots=sizes.slots,
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
            queue=ports.queue,
            sessions=ports.ledger,
            limits=burst_limits(world),
            send_timeout_ms=400,
            clock=clock,
            metrics=ports.metrics,
        )
        process.start(self._engine.run())
        process.start(watch.run())
        # Without the probe of the loop's lag: virtual time never lags, and a probe costs 20 steps a second.
        process.start(monitor._publish())
        start_sweeper(process, ports, self._placement, dispatcher)

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        """`POST /turns`."""
        if self._placement.closed:
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
        await asyncio.wait([waiting], timeout=2.0)
        waiting.cancel()
        await self._runner.close()
        await self._placement.settle()
        await asyncio.wait([asyncio.ensure_future(self._engine.close())], timeout=2.0)
        self.process.kill()


class Environment:
    """One execution environment of the burst worker: frozen between invocations, killed at the function's limit."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.is_idle = True
        self._world = world
        ports = Ports(world, process)
        dispatcher = QueueDispatcher(ports.queue, ports.ledger, process.clock)
        limit_ms = world.sizes.retry_in_process_limit_ms
        self._engine = make_engine(world, process, ports, dispatcher, limit_ms)
        self._batch = TurnBatch(
            run=self._run,
            queue=ports.queue,
            dead_letters=ports.queue.dead_letters,
            clock=process.clock,
            metrics=ports.metrics,
        )
        process.start(self._engine.run())

    def invoke(
        self, messages: list[Message], answer: Callable[[list[Message], list[Message]], None]
    ) -> None:
        """Run a batch; `answer` gets it with what must come back, or everything when the process dies."""
        self.is_idle = False
        self._thaw_from_idle()
        self.process.start(self._invoke(messages, answer))

    async def _invoke(self, messages: list[Message], answer: Any) -> None:
        limit_s = self._world.sizes.function_timeout_s
        deadline = self._world.network.later(limit_s, self.process.kill)
        batch = [
            QueueMessage(str(each.number), each.body.decode(), each.queue)  # type: ignore[arg-type]
            for each in messages
        ]
        returned = await self._batch.run(batch, round(limit_s * 1000))
        await asyncio.wait([asyncio.ensure_future(self._engine.close())], timeout=PUSH_PATIENCE_S)
        deadline.cancel()
        numbers = {each.message_id for each in returned}
        failed = [each for each in messages if str(each.number) in numbers]
        self._world.network.later(0.005, answer, messages, failed)
        self.is_idle = True
        self._world.network.later(0.005, self._freeze_when_idle)

    async def _run(self, request: TurnRequest) -> TurnResult:
        path: Path = "burst"
        return await self._engine.pipeline.run(request, path)

    def _freeze_when_idle(self) -> None:
        if self.is_idle:
            self.process.freeze()

    def _thaw_from_idle(self) -> None:
        self.process.thaw()


class Trigger:
    """Lambda's event source mapping: polls burst and retry, starts environments, deletes what succeeded."""

    def __init__(
        self,
        world: Surroundings,
        *,
        limit: int,
        start: Callable[[], Process],
    ) -> None:
        self._world = world
        self._limit = limit
        self._start = start
        self.environments: list[Environment] = []
        world.queues.on_message = self.poll

    def poll(self, queue: Any) -> None:
        """Something became visible, or an environment is free."""
        weather = self._world.network.weather
        while not weather.trigger_is_off and (environment := self._free()) is not None:
            limit = 1 if queue == "retry" else self._world.sizes.batch
            messages = self._world.queues.receive(queue, limit)
            if not messages:
                return
            receipts = {each.number: each.receipt for each in messages}

            def answer(
                taken: list[Message],
                failed: list[Message],
                receipts: dict[int, int] = receipts,
            ) -> None:
                self._settle(taken, failed, receipts)

            environment.invoke(messages, answer)

    def poll_all(self) -> None:
        for queue in ("retry", "burst"):
            self.poll(queue)

    def _settle(
        self, taken: list[Message], failed: list[Message], receipts: dict[int, int]
    ) -> None:
        for message in taken:
            if message in failed:
                self._world.queues.release(message)
            else:
                self._world.queues.delete(message, receipts[message.number])
        self.poll_all()

    def _free(self) -> Environment | None:
        alive = [each for each in self.environments if each.process.is_alive]
        self.environments = alive
        for environment in alive:
            if environment.is_idle:
                return environment
        if len(alive) >= self._limit:
            return None
        environment = Environment(self._world, self._start())
        environment.process.on_death.append(lambda: self._world.network.later(1.0, self.poll_all))
        self.environments.append(environment)
        return environment


def _socket_limits(sizes: Sizes) -> SocketLimits:
    return SocketLimits(
        session=SessionLimits(
            input=InputLimits(message_bytes=16_384, metadata_bytes=1_024),
            turns=FollowLimits(
                accepted_hold_ms=3_000, silent_turn_check_ms=3_000, lost_turn_after_ms=10_000
            ),
            lifetime=LifetimeLimits(idle_close_ms=300_000, max_age_ms=6_600_000),
            heartbeat_ms=25_000,
            protocol_errors_per_min=20,
            frames_per_s=30,
        ),
        outbox_bytes=sizes.outbox_bytes,
        outbox_stuck_ms=10_000,
        user_connections=0,
    )
