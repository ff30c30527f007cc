"""Dispatching an unclaimed turn again: a reservation first, then one message or one offer."""

from __future__ import annotations

from typing import assert_never

import msgspec

from shared.clock import Clock
from shared.contracts.recovery import DueTurn, ReservationKind
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError
from shared.policy.routing import queue_for
from shared.policy.sweeping import (
    Dispatch,
    DispatchAsNew,
    OfferToIntake,
    ResendToOwnQueue,
    SweepLimits,
    TakeOver,
    Target,
    second_target,
)
from shared.ports import DueTurns, SessionQueue, TurnDispatcher, TurnIntake, TurnQueue
from shared.telemetry import Log, Metrics

_log = Log("redispatch")


class Redispatch:
    """Sends turns to workers in the name of one sweeper."""

    def __init__(
        self,
        *,
        due: DueTurns,
        sessions: SessionQueue,
        dispatcher: TurnDispatcher,
        intake: TurnIntake,
        queue: TurnQueue,
        sweeper: str,
        clock: Clock,
        metrics: Metrics,
        limits: SweepLimits,
    ) -> None:
        self._due = due
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._intake = intake
        self._queue = queue
        self._sweeper = sweeper
        self._clock = clock
        self._metrics = metrics
        self._limits = limits

    async def perform(self, turn: DueTurn, dispatch: Dispatch) -> None:
        """Do it unless somebody else has reserved, claimed or ended the turn meanwhile.

        A target that cannot be asked is logged; the turn is due again when the reservation ends. Raises
        DependencyUnavailable when the ledger cannot be asked.
        """
        match dispatch:
            case DispatchAsNew() | ResendToOwnQueue():
                is_new = isinstance(dispatch, DispatchAsNew)
                if await self._reserve(turn, "dispatch" if is_new else "offer"):
                    self._note("new" if is_new else "own_queue")
                    await self._dispatcher.dispatch(turn.state.request)
            case OfferToIntake():
                await self._offer_once(turn)
            case TakeOver(target):
                await self._take_over(turn, target, "dispatch")
            case _:
                assert_never(dispatch)

    async def _offer_once(self, turn: DueTurn) -> None:
        """The one offer of a queued turn; while nobody can be asked it is still to be made."""
        now_ms = self._clock.now_ms()
        if not await self._reserve(turn, "dispatch", now_ms):
            return
        # Marked as queued already: the intake must not answer with a second queue message.
        message = _message(turn, turn.state.placed_at_ms, "queued_for_long")
        if await self._submit(message) is not None:
            self._note("intake")
            await self._reserve(turn, "offer", now_ms)

    async def deliver(self, turn: DueTurn) -> None:
        """Dispatch an attempt that delivers the stored answer; it is not counted."""
        await self._take_over(turn, "retry", "delivery")

    async def _take_over(self, turn: DueTurn, target: Target, kind: ReservationKind) -> None:
        if not await self._reserve(turn, kind):
            return
        for place in (target, second_target(target, turn.state.request)):
            if place is not None and await self._send(turn, place):
                self._metrics.count("TakeoverStarted", target=place)
                _log.warning(
                    "turn.taken_over",
                    target=place,
                    attempt=turn.state.attempt,
                    worker=turn.attempts[-1].worker if turn.attempts else "",
                    released=turn.recovery.released,
                    dispatches=turn.recovery.dispatches + 1,
                    lapsed_ms=self._clock.now_ms() - turn.state.lease_until_ms,
                )
                return

    async def _send(self, turn: DueTurn, target: Target) -> bool:
        now_ms = self._clock.now_ms()
        message = _message(turn, now_ms, "takeover")
        if target == "intake":
            return await self._offer(message)
        name = "retry" if target == "retry" else queue_for(message)
        try:
            await self._queue.send(name, message)
        except ChatError as error:
            _log.warning("takeover.not_sent", queue=name, error_type=type(error).__name__)
            return False
        await self._sessions.mark_placed(
            message.ref, "burst" if target == "retry" else "queue", now_ms
        )
        return True

    async def _offer(self, message: TurnRequest) -> bool:
        decision = await self._submit(message)
        return decision is not None and decision.path is not None

    async def _submit(self, message: TurnRequest) -> IntakeDecision | None:
        try:
            decision = await self._intake.submit(message)
        except ChatError as error:
            _log.warning("offer.not_sent", error_type=type(error).__name__)
            return None
        if decision.path is None:
            _log.info("offer.refused", reason=decision.reason)
        return decision

    async def _reserve(
        self, turn: DueTurn, kind: ReservationKind, now_ms: int | None = None
    ) -> bool:
        """The same `now_ms` again is the same reservation."""
        now_ms = self._clock.now_ms() if now_ms is None else now_ms
        state = turn.state
        return await self._due.reserve(
            state.request.ref,
            sweeper=self._sweeper,
            attempt=state.attempt,
            dispatches=turn.recovery.dispatches,
            kind=kind,
            until_ms=now_ms + self._limits.reservation_ms,
            now_ms=now_ms,
        )

    def _note(self, target: str) -> None:
        self._metrics.count("SweptDispatched", target=target)
        _log.warning("turn.dispatched_again", target=target)


def _message(turn: DueTurn, sent_at_ms: int, reason: str) -> TurnRequest:
    return msgspec.structs.replace(
        turn.state.request,
        attempt_hint=turn.state.attempt,
        enqueued_at_ms=sent_at_ms,
        reason=reason,
    )
