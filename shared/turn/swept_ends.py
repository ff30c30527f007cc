"""Ending a turn that nobody holds: marker, evidence, ledger, followers, next head, in this order."""

from __future__ import annotations

import asyncio
from typing import assert_never

from shared.clock import Clock
from shared.contracts.dead_letters import DeadLetter, DeadLetterClass, DeadLetterError
from shared.contracts.ledger import Finished, StillClaimed, TurnEnded, TurnUnknown
from shared.contracts.recovery import DueTurn
from shared.contracts.server_frames import (
    ResponseExpired,
    ResponseFailed,
    TerminalFrame,
    encode_frame,
)
from shared.contracts.turns import EndStatus, Path
from shared.errors import DependencyUnavailable
from shared.policy.endings import failed_end
from shared.policy.fingerprint import fingerprint
from shared.policy.routing import has_own_queue
from shared.policy.sweeping import Expire, Fail, SweepLimits
from shared.ports import FramePush, TurnClaims, TurnDispatcher, TurnStore
from shared.telemetry import Log, Metrics
from shared.turn.broadcast import broadcast
from shared.turn.evidence import Evidence, dead_letter_queue
from shared.turn.markers import end_marker, mark_end
from shared.turn.redispatch import Redispatch

_log = Log("swept_ends")
_MARKER_NONCE = "sweeper"
"""One for all sweepers: whichever comes second recognises the marker as its own."""


class SweptEnds:
    """Ends turns in the name of one sweeper."""

    def __init__(
        self,
        *,
        claims: TurnClaims,
        store: TurnStore,
        push: FramePush,
        dispatcher: TurnDispatcher,
        redispatch: Redispatch,
        evidence: Evidence,
        clock: Clock,
        metrics: Metrics,
        limits: SweepLimits,
    ) -> None:
        self._claims = claims
        self._store = store
        self._push = push
        self._dispatcher = dispatcher
        self._redispatch = redispatch
        self._evidence = evidence
        self._clock = clock
        self._metrics = metrics
        self._limits = limits

    async def expire(self, turn: DueTurn, decision: Expire) -> None:
        """End a turn that was never claimed, unless somebody claims it first."""
        attempt, seq = _place(turn)
        frame = ResponseExpired(
            turn_id=turn.state.request.turn_id, attempt=attempt, seq=seq, age_ms=decision.age_ms
        )
        if await self._end(turn, "expired", frame):
            self._metrics.count("SweptExpired", placed=turn.state.placed)
            _log.warning("turn.expired", placed=turn.state.placed, age_ms=decision.age_ms)

    async def fail(self, turn: DueTurn, decision: Fail) -> None:
        """End a claimed turn that no attempt will end; if its answer is stored, have that delivered instead.

        While the store cannot be asked the end is put off, for `unclaimed_limit_ms` at most.
        """
        try:
            is_answered = await self._is_answered(turn)
        except DependencyUnavailable as error:
            _log.error("turn.not_marked", error_type=type(error).__name__)
            if decision.overdue_ms < self._limits.unclaimed_limit_ms:
                return
            is_answered = False
        if is_answered:
            await self._redispatch.deliver(turn)
            return
        if decision.dead_letter is not None:
            await self._bury(turn, decision.dead_letter)
        attempt, seq = _place(turn)
        end = failed_end(decision.code)
        frame = ResponseFailed(
            turn_id=turn.state.request.turn_id,
            attempt=attempt,
            seq=seq,
            code=end.code,
            message=end.message,
            retryable=end.retryable,
            partial=seq > 1,  # seq 0 is `started`, text comes from seq 1
        )
        if await self._end(turn, "failed", frame):
            self._metrics.count("SweptFailed", code=decision.code)
            _log.error("turn.failed", code=decision.code, attempts=len(turn.attempts))

    async def _is_answered(self, turn: DueTurn) -> bool:
        """True when an answer is stored; otherwise no attempt so far can store one any more."""
        marker = end_marker(
            turn.state.request,
            status="failed",
            attempt=turn.state.attempt,
            nonce=_MARKER_NONCE,
            now_ms=self._clock.now_ms(),
        )
        return await mark_end(self._store, marker) is not None

    async def _bury(self, turn: DueTurn, klass: DeadLetterClass) -> None:
        request = turn.state.request
        name = "WorkerLost" if klass == "poison" else "TurnUnclaimed"
        lost = sum(attempt.outcome == "crashed" for attempt in turn.attempts)
        letter = DeadLetter(
            turn=request,
            klass=klass,
            error=DeadLetterError(
                type=name,
                message=f"{len(turn.attempts)} attempts, {lost} ended without a word",
                stack="",
            ),
            attempts=turn.attempts,
            dead_at_ms=self._clock.now_ms(),
            fingerprint=fingerprint(name, ""),
        )
        path: Path = "queue" if has_own_queue(request) else "burst"
        await self._evidence.send(dead_letter_queue(request, path), letter)

    async def _end(self, turn: DueTurn, status: EndStatus, frame: TerminalFrame) -> bool:
        outcome = encode_frame(frame)
        answer = await self._claims.end_unclaimed(
            turn.state.request.ref,
            status=status,
            outcome=outcome,
            now_ms=self._clock.now_ms(),
            attempt=turn.state.attempt,
        )
        match answer:
            case Finished(followers, next_head):
                self._metrics.count("TurnEnded", status=status, path="swept", code=_code(frame))
                follow_ups = [broadcast(self._push, followers, outcome)]
                if next_head is not None:
                    follow_ups.append(self._dispatcher.dispatch(next_head))
                await asyncio.gather(*follow_ups)
                return True
            case TurnEnded() | StillClaimed() | TurnUnknown():
                return False
            case _:
                assert_never(answer)


def _place(turn: DueTurn) -> tuple[int, int]:
    """Attempt and seq of an end without a live owner."""
    attempt = turn.state.attempt
    return attempt, turn.state.last_seq + 1 if attempt else 0


def _code(frame: TerminalFrame) -> str:
    return frame.code if isinstance(frame, ResponseFailed) else "none"
