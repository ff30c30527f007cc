"""A fleet in memory: worker processes that can die or freeze, queues that can lose, an intake, and sweepers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.turns import IntakeDecision, Path, QueueName, TurnRequest
from shared.errors import DependencyUnavailable
from shared.telemetry import Metrics
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.ended_turns import EndedTurns
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.result import TurnResult
from shared.turn.sweeper import Sweeper
from tests.fakes.clock import FakeRandomness, settle
from tests.fakes.due_turns import FakeDueTurns
from tests.fakes.ledger import FakeLedger
from tests.fakes.limits import answer_plan, flush_limits, push_limits, sweep_limits
from tests.fakes.model import Step
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_world import TurnWorld


class Reach:
    """A port as a process reaches it: while the process does not live, no call goes out or comes back."""

    def __init__(self, port: Any, alive: asyncio.Event) -> None:
        self._port = port
        self._alive = alive

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._alive.wait()
            answer = await getattr(self._port, verb)(*args, **kwargs)
            await self._alive.wait()
            return answer

        return call


@dataclass
class Process:
    """A worker process. Its engine reaches ledger, store and gateways only as long as it lives."""

    name: str
    engine: TurnEngine
    alive: asyncio.Event
    loops: asyncio.Task[None]
    turns: list[asyncio.Task[TurnResult]] = field(default_factory=list)

    def die(self) -> None:
        """SIGKILL: nothing of it happens any more."""
        self.alive.clear()

    freeze = die

    def thaw(self) -> None:
        """SIGCONT: it goes on where it stood."""
        self.alive.set()

    def begin(self, request: TurnRequest, path: Path) -> asyncio.Task[TurnResult]:
        task = asyncio.create_task(self.engine.pipeline.run(request, path))
        self.turns.append(task)
        return task

    async def close(self) -> None:
        self.alive.set()
        for task in (*self.turns, self.loops):
            task.cancel()
        for task in (*self.turns, self.loops):
            with suppress(asyncio.CancelledError, Exception):
                await task


class FakeIntake:
    """TurnIntake: gives turns to `process`; None = full. `offered` holds what was submitted."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.offered: list[TurnRequest] = []
        self.unavailable = False

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        if self.unavailable:
            raise DependencyUnavailable("the fake intake was told to be away")
        self.offered.append(request)
        if self.process is None:
            return IntakeDecision(path=None, reason="no_slots", retry_after_ms=1_000)
        self.process.begin(request, "inline")
        return IntakeDecision(path="inline", reason="free_slot")


class TriggeredQueue(FakeTurnQueue):
    """A queue whose trigger gives messages to `process`; None = the trigger is off, or messages get lost."""

    def __init__(self) -> None:
        super().__init__()
        self.process: Process | None = None

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        await super().send(queue, request, delay_s=delay_s)
        if self.process is not None:
            self.process.begin(request, "burst")

    def names(self) -> list[QueueName]:
        return [queue for queue, _, _ in self.sent]


class SweepWorld(TurnWorld):
    """Around TurnWorld's session: processes, sweepers, the retry queue and the intake."""

    def __init__(self, *scripts: Sequence[Step], sweepers: int = 2, **limits: Any) -> None:
        super().__init__(*scripts)
        self.ledger = FakeLedger(self.clock)
        self.due = FakeDueTurns(self.ledger, self.clock)
        self.queue = TriggeredQueue()
        self.intake = FakeIntake()
        self.sweep_limits = sweep_limits(**limits)
        self.processes: list[Process] = []
        self.sweepers = [self.make_sweeper(number) for number in range(sweepers)]

    def make_sweeper(self, number: int, **ports: Any) -> Sweeper:
        known: dict[str, Any] = {
            "due": self.due,
            "claims": self.ledger,
            "sessions": self.ledger,
            "store": self.store,
            "push": self.push,
            "queue": self.queue,
            "dead_letters": self.dead_letters,
            "intake": self.intake,
            "dispatcher": self.dispatcher,
        }
        return make_sweeper(
            SweepPorts(**{**known, **ports}),
            sweeper=f"sweeper-{number}",
            clock=self.clock,
            randomness=FakeRandomness(100 + number),
            metrics=Metrics("burstchat", "gateway", self.clock, self.metrics),
            limits=self.sweep_limits,
            interval_ms=500,
            ended=EndedTurns(self.events),
        )

    def start(self, name: str = "worker-1") -> Process:
        """A worker process comes up."""
        alive = asyncio.Event()
        alive.set()
        reach: Any = {
            port: Reach(fake, alive)
            for port, fake in (("claims", self.ledger), ("store", self.store), ("push", self.push))
        }
        engine = TurnEngine(
            TurnPorts(
                claims=reach["claims"],
                followers=reach["claims"],
                store=reach["store"],
                push=reach["push"],
                model=self.model,
                classifier=self.classifier,
                sources=self.sources,
                dispatcher=self.dispatcher,
                dead_letters=self.dead_letters,
            ),
            system_prompt=lambda: self.prompt,
            plan=lambda: answer_plan("claude-test"),
            worker=name,
            clock=self.clock,
            randomness=FakeRandomness(len(self.processes) + 10),
            metrics=Metrics("burstchat", "orchestrator", self.clock, self.metrics),
            limits=self.limits,
            flush=flush_limits(),
            pushes=push_limits(),
        )
        process = Process(name, engine, alive, asyncio.create_task(engine.run()))
        self.processes.append(process)
        return process

    @asynccontextmanager
    async def sweeping(self) -> Any:
        """The sweepers run, and have seen the ledger answer for long enough to act."""
        loops = [asyncio.create_task(sweeper.run()) for sweeper in self.sweepers]
        try:
            await self.clock.advance(5)
            yield self
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            for process in self.processes:
                await process.close()
            await settle()


async def seconds(world: SweepWorld, duration_s: float) -> None:
    """Time passes in steps that let every process act."""
    for _ in range(round(duration_s * 10)):
        await world.clock.advance(0.1)


async def crashed_once(world: SweepWorld) -> tuple[TurnRequest, Process]:
    """A turn whose first worker dies in mid-answer."""
    worker = world.start()
    request = await world.accept("Hi")
    worker.begin(request, "inline")
    await seconds(world, 1)
    worker.die()
    return request, worker


def ends(world: SweepWorld, connection_id: str = "c1") -> list[Any]:
    """The terminal frames that a reader got."""
    kinds = ("completed", "failed", "cancelled", "expired")
    return [
        frame
        for frame in world.frames(connection_id)
        if type(frame).__name__.removeprefix("Response").lower() in kinds
    ]


async def state_of(world: SweepWorld, request: TurnRequest) -> Any:
    """The turn as the ledger has it."""
    return await world.ledger.state(request.ref)
