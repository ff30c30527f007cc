"""Ending a turn that nobody holds: marker, evidence, ledger, followers, next head, in this order."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from shared.clock import Clock
from shared.contracts.dead_letters import (
    TURN_UNCLAIMED,
    TURN_UNREADABLE,
    WORKER_LOST,
    DeadLetter,
    DeadLetterClass,
    DeadLetterError,
)
from shared.contracts.ledger import Finished, StillClaimed, TurnEnded, TurnUnknown
from shared.contracts.recovery import DueTurn
from shared.contracts.turns import EndStatus, Path
from shared.errors import ChatError
from shared.policy.failed_ends import failed_end
from shared.policy.fingerprint import fingerprint
from shared.policy.routing import has_own_queue
from shared.policy.sweeping import Expire, Fail, SweepLimits
from shared.ports import FramePush, TurnClaims, TurnDispatcher, TurnStore
from shared.telemetry import Log, Metrics
from shared.turn.broadcast import broadcast
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.evidence import Evidence, dead_letter_queue
from shared.turn.markers import end_marker, mark_end
from shared.turn.redispatch import Redispatch
from shared.turn.terminal_frames import (
    TerminalMaker,
    expired_frame,
    failed_unclaimed_frame,
    place_of_end,
)
from shared.turn.unclaimed_ends import UnclaimedEnds, count_end

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
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        self._ends = UnclaimedEnds(claims, dispatcher, partial(broadcast, push), clock)
        self._store = store
        self._redispatch = redispatch
        self._evidence = evidence
        self._clock = clock
        self._metrics = metrics
        self._limits = limits
        self._ended = ended

    async def expire(self, turn: DueTurn, decision: Expire) -> None:
        """End a turn that was never claimed, unless somebody claims it first."""
        terminal = expired_frame(turn.state.request.turn_id, decision.age_ms)
        if await self._end(turn, "expired", terminal):
            self._metrics.count("SweptExpired", placed=turn.state.placed)
            _log.warning("turn.expired", placed=turn.state.placed, age_ms=decision.age_ms)

    async def fail(self, turn: DueTurn, decision: Fail) -> None:
        """End a claimed turn that no attempt will end; if its answer is stored, have that delivered instead.

        While the store takes no marker the end is put off, for `unclaimed_limit_ms` at most: what refuses this process
        may serve the sweeper of another.
        """
        try:
            is_answered = await self._is_answered(turn)
        except ChatError as error:
            _log.error("turn.not_marked", error_type=type(error).__name__)
            if decision.overdue_ms < self._limits.unclaimed_limit_ms:
                return
            is_answered = False
        if is_answered:
            await self._redispatch.deliver(turn)
            return
        if decision.dead_letter is not None:
            await self._bury(turn, decision.dead_letter)
        terminal = failed_unclaimed_frame(turn.state.request.turn_id, failed_end(decision.code))
        if await self._end(turn, "failed", terminal, code=decision.code):
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
        path: Path = "queue" if has_own_queue(request) else "burst"
        letter = self._letter(turn, klass)
        await self._evidence.send(dead_letter_queue(request, path), letter)

    def _letter(self, turn: DueTurn, klass: DeadLetterClass) -> DeadLetter:
        request, unreadable = turn.state.request, turn.state.unreadable
        if unreadable is not None:
            name, words = TURN_UNREADABLE, f"what the ledger holds of {request.turn_id}"
        else:
            name = WORKER_LOST if klass == "poison" else TURN_UNCLAIMED
            lost = sum(attempt.outcome == "crashed" for attempt in turn.attempts)
            words = f"{len(turn.attempts)} attempts, {lost} ended without a word"
        return DeadLetter(
            turn=request if unreadable is None else None,
            raw=None if unreadable is None else unreadable.decode("utf-8", "backslashreplace"),
            klass=klass,
            error=DeadLetterError(type=name, message=words, stack=""),
            attempts=turn.attempts,
            dead_at_ms=self._clock.now_ms(),
            fingerprint=fingerprint(name, ""),
        )

    async def _end(
        self, turn: DueTurn, status: EndStatus, terminal: TerminalMaker, *, code: str = ""
    ) -> bool:
        ref, place = turn.state.request.ref, place_of_end(turn.state)
        answer = await self._ends.end(ref, status, terminal, place)
        match answer:
            case Finished():
                count_end(self._metrics, status, path="swept", code=code)
                self._ended.unclaimed(
                    ref,
                    status,
                    by="sweeper",
                    now_ms=self._clock.now_ms(),
                    code=code,
                    request=turn.state.request,
                    attempt=place.attempt,
                )
                return True
            case TurnEnded() | StillClaimed() | TurnUnknown():
                return False
            case _:
                assert_never(answer)
