from __future__ import annotations

import asyncio
import io

import msgspec
import pytest

from services.orchestrator.queue_runner.consumer import Consumer
from services.orchestrator.queue_runner.delivery import Delivery
from services.orchestrator.queue_runner.slots import QueueSlots
from shared.contracts.load import LoadSample
from shared.contracts.turns import QueueName, TurnRequest, encode_turn
from shared.policy.receiving import ReceivePlan
from shared.ports import InboxMessage
from shared.telemetry import Metrics
from shared.turn.interruption import Interruption
from shared.turn.load_watch import LoadWatch
from shared.turn.result import TurnResult
from tests.fakes.clock import FakeClock, FakeRandomness, settle
from tests.fakes.inbox import FakeTurnInbox
from tests.fakes.limits import receive_limits
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.queues import FakeDeadLetterQueue, FakeTurnQueue

VISIBILITY_S = 120
EXTEND_S = 40


class QueueRunner:
    """The parts of the process around a pipeline that a test holds open."""

    def __init__(self, *, slots: int = 4, consumers: int = 3) -> None:
        self.clock = FakeClock()
        self.inbox = FakeTurnInbox(self.clock)
        self.queue = FakeTurnQueue()
        self.letters = FakeDeadLetterQueue()
        self.board = FakeLoadBoard(self.clock)
        self.watch = LoadWatch(self.board, self.clock, burst_capacity_turns=20)
        self.gates: dict[str, asyncio.Event] = {}
        self.results: dict[str, TurnResult | Exception] = {}
        self.running: list[str] = []
        self.begun: list[str] = []
        self.cut: list[str] = []
        self.most = 0
        self.delivery = Delivery(
            run=self._run,
            queue=self.queue,
            inbox=self.inbox,
            dead_letters=self.letters,
            visibility_s=VISIBILITY_S,
            extend_s=EXTEND_S,
            clock=self.clock,
            metrics=Metrics("burstchat", "queue_runner", self.clock, io.StringIO()),
        )
        self.slots = QueueSlots(
            plan=ReceivePlan(receive_limits(slots=slots, consumers=consumers)),
            watch=self.watch,
            deliver=self.delivery.deliver,
            give_back=self.delivery.give_back,
            clock=self.clock,
        )
        self.consumers = [
            Consumer(
                number,
                slots=self.slots,
                inbox=self.inbox,
                visibility_s=VISIBILITY_S,
                clock=self.clock,
                randomness=FakeRandomness(),
            )
            for number in range(consumers)
        ]
        self._parts: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for part in (self.slots, *self.consumers):
            self._parts.append(asyncio.create_task(part.run(), name=part.name))

    async def stop(self) -> None:
        for task in self._parts:
            task.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        await self.slots.cut()

    def put(self, queue: QueueName, request: TurnRequest, **options: int) -> None:
        self.gates.setdefault(request.session_id, asyncio.Event())
        self.inbox.put(queue, encode_turn(request).decode(), **options)

    def end(self, *sessions: str) -> None:
        for session in sessions:
            self.gates[session].set()

    async def enter_moderate(self) -> None:
        sample = LoadSample(
            worker="w", at_ms=0, slots=1, running=1, lag_ms=0, cpu_share=0, mean_turn_ms=1_000
        )
        await self.board.publish(msgspec.structs.replace(sample, at_ms=self.clock.now_ms()))
        self.board.queued_at_ms = {str(number): 0 for number in range(40)}
        await self.watch.refresh()

    async def deliver(self, message: InboxMessage) -> None:
        await self.delivery.deliver(message, Interruption())

    async def _run(self, request: TurnRequest, give_up: Interruption) -> TurnResult:
        session = request.session_id
        self.begun.append(session)
        self.running.append(session)
        self.most = max(self.most, len(self.running))
        try:
            async with give_up:
                await self.gates[session].wait()
        except asyncio.CancelledError:
            self.cut.append(session)
            raise
        finally:
            self.running.remove(session)
        if give_up.interrupted:
            return TurnResult(outcome="retry_later", attempt=3)
        result = self.results.get(session, TurnResult(outcome="ended", status="completed"))
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
async def runner():
    made = QueueRunner()
    yield made
    await made.stop()
    await settle()
