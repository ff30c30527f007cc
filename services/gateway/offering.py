"""Where the gateway sends a head turn: the orchestrators' intake, else the burst queue."""

from __future__ import annotations

import msgspec

from services.gateway.door import Door, Refusal, overloaded
from shared.clock import Clock
from shared.contracts.turns import Path, TurnRequest
from shared.errors import ChatError
from shared.policy.routing import has_own_queue
from shared.ports import SessionQueue, TurnDispatcher, TurnIntake, TurnQueue
from shared.telemetry import Log

_log = Log("offering")

INTAKE_UNAVAILABLE = "intake_unavailable"
FAULT_LASTS_S = 15.0
"""A gateway without traffic learns nothing new: for longer a failure does not keep traffic away from it."""


class Offering:
    """A TurnDispatcher, too: the gateway finishes turns when it cancels or takes back unclaimed ones."""

    def __init__(
        self,
        *,
        intake: TurnIntake,
        turn_queue: TurnQueue,
        sessions: SessionQueue,
        queues: TurnDispatcher,
        door: Door,
        clock: Clock,
    ) -> None:
        self._intake = intake
        self._turn_queue = turn_queue
        self._sessions = sessions
        self._queues = queues  # for turns that have a queue of their own
        self._door = door
        self._clock = clock
        self._failed_at_s: float | None = None

    @property
    def fault(self) -> str | None:
        """Why new turns find no worker, None when the last one did or has been long ago."""
        failed_at_s = self._failed_at_s
        if failed_at_s is None or self._clock.monotonic_s() - failed_at_s >= FAULT_LASTS_S:
            return None
        return "neither an orchestrator nor the burst queue took a turn"

    async def offer(self, request: TurnRequest) -> Path | Refusal:
        """Hand over a head turn: where it went, or why nobody takes it (shed).

        Raises ChatError when neither the intake nor the queue took it, for a while or for good.
        """
        try:
            placed = await self._offer(request)
        except ChatError:
            self._failed_at_s = self._clock.monotonic_s()
            raise
        self._failed_at_s = None
        return placed

    async def dispatch(self, request: TurnRequest) -> None:
        """As the finisher of the turn before; a failure is logged and left to the sweeper."""
        if has_own_queue(request):
            await self._queues.dispatch(request)
            return
        try:
            placed = await self.offer(request)
        except ChatError as error:
            reason = type(error).__name__
        else:
            if not isinstance(placed, Refusal):
                return
            reason = placed.reason
        _log.warning("head.left_to_sweeper", turn_id=request.turn_id, reason=reason)

    async def _offer(self, request: TurnRequest) -> Path | Refusal:
        try:
            decision = await self._intake.submit(request)
        except ChatError as error:
            _log.warning("intake.unavailable", error_type=type(error).__name__)
            return await self._enqueue(request)
        if decision.path is None:
            return overloaded(decision.retry_after_ms, decision.reason)
        return decision.path

    async def _enqueue(self, request: TurnRequest) -> Path | Refusal:
        refusal = self._door.burst_refusal()
        if refusal is not None:
            return refusal
        now_ms = self._clock.now_ms()
        message = msgspec.structs.replace(request, enqueued_at_ms=now_ms, reason=INTAKE_UNAVAILABLE)
        await self._turn_queue.send("burst", message)
        try:
            await self._sessions.mark_placed(request.ref, "burst", now_ms)
        except ChatError as error:
            # It is queued all the same; the sweeper may offer it a second time, and one claim is refused.
            _log.warning(
                "turn.mark_failed", turn_id=request.turn_id, error_type=type(error).__name__
            )
        return "burst"
