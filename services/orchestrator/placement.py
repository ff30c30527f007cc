"""Puts a head turn where the admission rule says: a slot of this task or the burst queue."""

from __future__ import annotations

import asyncio

import msgspec

from services.orchestrator.inline_runner import InlineRunner
from services.orchestrator.load_monitor import LoadMonitor
from services.orchestrator.tenant_shares import TenantShares
from shared.clock import Clock
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError, DependencyUnavailable
from shared.policy.admission import BurstLimits, place
from shared.policy.wait_estimate import estimate_wait_ms
from shared.policy.waiting_shares import WaitingShares
from shared.ports import SessionQueue, TurnQueue
from shared.telemetry import Log, Metrics, bind
from shared.turn.load_watch import LoadWatch

_log = Log("placement")


class Placement:
    """The TurnIntake of this task: decides and acts, without waiting for the turn itself.

    After `close` no slot is given out any more: new turns overflow, takeovers are left to other tasks.
    """

    def __init__(
        self,
        *,
        runner: InlineRunner,
        monitor: LoadMonitor,
        watch: LoadWatch,
        shares: TenantShares,
        waiting: WaitingShares,
        queue: TurnQueue,
        sessions: SessionQueue,
        limits: BurstLimits,
        send_timeout_ms: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._runner = runner
        self._monitor = monitor
        self._watch = watch
        self._shares = shares
        self._waiting = waiting
        self._queue = queue
        self._sessions = sessions
        self._limits = limits
        self._send_timeout_s = send_timeout_ms / 1000
        self._clock = clock
        self._metrics = metrics
        self._marks: set[asyncio.Task[None]] = set()
        self.is_closed = False
        """True while the task drains."""

    def close(self) -> None:
        """Give out no more slots."""
        self.is_closed = True

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        """Start the turn or send it to burst; the answer says which, or that it was shed.

        Raises DependencyUnavailable when burst took it too long; the message may have been sent all the same.
        """
        decision = self._decide(request)
        if decision.path == "inline":
            self._runner.start(request)
        elif decision.path == "burst":
            await self._send(request, decision.reason)
        self._metrics.count("PlacedTurns", path=decision.path or "shed", reason=decision.reason)
        with bind(turn_id=request.turn_id, session_id=request.session_id):
            _log.info("turn.placed", path=decision.path or "shed", reason=decision.reason)
        return decision

    async def settle(self) -> None:
        """Wait until every queued turn is marked as such."""
        if self._marks:
            await asyncio.wait(self._marks)

    def _decide(self, request: TurnRequest) -> IntakeDecision:
        now_ms = self._clock.now_ms()
        wait_ms = estimate_wait_ms(self._watch.fleet, self._limits.capacity_turns)
        self._shares.want(request.tenant, now_ms)
        decision = place(
            count=self._runner.count,
            strain=self._monitor.strain,
            is_draining=self.is_closed,
            is_takeover=request.attempt_hint > 0,
            is_over_share=self._shares.is_over(request.tenant, now_ms),
            is_queued=request.enqueued_at_ms > 0,
            is_crowding=self._waiting.is_crowding(request.tenant, wait_ms, now_ms),
            load=self._watch.fleet,
            limits=self._limits,
        )
        if decision.path != "inline":
            self._shares.overflow(request.tenant, now_ms)
        if decision.path == "burst":
            self._waiting.queued(request.tenant, now_ms)
        return decision

    async def _send(self, request: TurnRequest, reason: str) -> None:
        message = msgspec.structs.replace(
            request, enqueued_at_ms=self._clock.now_ms(), reason=reason
        )
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await self._queue.send("burst", message)
        except TimeoutError as error:
            raise DependencyUnavailable("the burst queue did not take the turn in time") from error
        # The mark is not worth the answer's time: a turn without it is dispatched once more after 5 s.
        task = asyncio.create_task(self._mark(request))
        self._marks.add(task)
        task.add_done_callback(self._marks.discard)

    async def _mark(self, request: TurnRequest) -> None:
        try:
            await self._sessions.mark_placed(request.ref, "burst", self._clock.now_ms())
        except ChatError as error:
            _log.warning(
                "turn.mark_failed", turn_id=request.turn_id, error_type=type(error).__name__
            )
