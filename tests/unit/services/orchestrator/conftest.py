from __future__ import annotations

import asyncio
import io

import pytest

from services.orchestrator.cpu_usage import CpuMeter
from services.orchestrator.inline_runner import InlineRunner
from services.orchestrator.load_monitor import LoadMonitor
from services.orchestrator.placement import Placement
from services.orchestrator.tenant_shares import TenantShares
from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import TurnRequest
from shared.policy.admission import BurstLimits, StrainLimits
from shared.policy.waiting_shares import WaitingShares
from shared.telemetry import Metrics
from shared.turn.load_watch import LoadWatch
from tests.fakes.clock import FakeClock
from tests.fakes.ledger import FakeLedger
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.queues import FakeTurnQueue


class Orchestrator:
    """The pieces of the service around a pipeline that a test holds open."""

    def __init__(self, slots: int = 2) -> None:
        self.clock = FakeClock()
        self.board = FakeLoadBoard(self.clock)
        self.queue = FakeTurnQueue()
        self.sessions = FakeLedger(self.clock)
        self.release = asyncio.Event()
        self.ran: list[str] = []
        self.cut: list[str] = []
        self.durations_ms: list[float] = []
        self.error: Exception | None = None
        metrics = Metrics("burstchat", "orchestrator", self.clock, io.StringIO())
        shares = TenantShares(slots)
        self.runner = InlineRunner(
            slots=slots,
            shares=shares,
            run=self._run,
            turn_ended=self.durations_ms.append,
            clock=self.clock,
        )
        self.watch = LoadWatch(self.board, self.clock, burst_capacity_turns=20)
        self.monitor = LoadMonitor(
            worker="task-1",
            board=self.board,
            count=lambda: self.runner.count,
            limits=StrainLimits(
                lag_high_ms=100, lag_low_ms=40, cpu_high_share=0.8, cpu_low_share=0.6
            ),
            cpu=CpuMeter(self.clock, 1.0, lambda: 0.0),
            sample_ms=1_000,
            clock=self.clock,
        )
        self.placement = Placement(
            runner=self.runner,
            monitor=self.monitor,
            watch=self.watch,
            shares=shares,
            waiting=WaitingShares(),
            queue=self.queue,
            sessions=self.sessions,
            limits=BurstLimits(capacity_turns=20, waiting_turns=3, wait_ms=45_000),
            send_timeout_ms=30,
            clock=self.clock,
            metrics=metrics,
        )

    async def _run(self, request: TurnRequest) -> None:
        self.ran.append(request.turn_id)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cut.append(request.turn_id)
            raise
        if self.error is not None:
            raise self.error


def turn(number: int = 1, *, tenant: str = "shop", **fields) -> TurnRequest:
    return TurnRequest(
        turn_id=TurnId(f"s{number}.{number:026d}"),
        session_id=SessionId(f"s{number}"),
        message_id=MessageId(f"m{number}"),
        tenant=TenantId(tenant),
        user=UserId("u"),
        text="hello",
        accepted_at_ms=1_700_000_000_000,
        ready_at_ms=1_700_000_000_000,
        **fields,
    )


@pytest.fixture
def orchestrator() -> Orchestrator:
    return Orchestrator()


@pytest.fixture
def make_turn():
    return turn
