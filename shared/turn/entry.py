"""Before the work: is the turn still worth it, and is it ours?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from shared.clock import Clock
from shared.contracts.ledger import (
    Claimed,
    ClaimRefusal,
    ClaimRefused,
    Finished,
    Follower,
    StillClaimed,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from shared.contracts.turns import EndStatus, Path, TurnRequest
from shared.errors import ChatError
from shared.policy.limits import TurnLimits
from shared.policy.staleness import age_ms, is_stale
from shared.ports import TurnClaims, TurnDispatcher, TurnStore
from shared.telemetry import Log
from shared.turn.claimant import Claimant
from shared.turn.markers import end_marker, mark_end
from shared.turn.pusher import Pusher
from shared.turn.result import TurnResult
from shared.turn.terminal_frames import (
    BEFORE_ANY_CLAIM,
    EndPlace,
    TerminalMaker,
    cancelled_frame,
    expired_frame,
    place_of_end,
)
from shared.turn.unclaimed_ends import UnclaimedEnds

_log = Log("entry")
_REFUSED = TurnResult(outcome="refused")
_MARKER_NONCE = "readerless"  # whoever meets such a turn writes the same marker


class Entry:
    """Claims turns, and ends those that need no work."""

    def __init__(
        self,
        claims: TurnClaims,
        store: TurnStore,
        dispatcher: TurnDispatcher,
        claimant: Claimant,
        pusher: Pusher,
        clock: Clock,
        limits: TurnLimits,
    ) -> None:
        self._ends = UnclaimedEnds(claims, dispatcher, self._tell, clock)
        self._store = store
        self._claimant = claimant
        self._pusher = pusher
        self._clock = clock
        self._limits = limits

    async def enter(self, request: TurnRequest, path: Path) -> Claimed | TurnResult:
        """The claim, or what became of a turn that is not run.

        Raises DependencyUnavailable when the ledger cannot be asked for `claim_patience_ms`.
        """
        if is_stale(request, self._clock.now_ms(), self._limits):
            result = await self._expire(request)
            if result is not None:
                return result
        answer = await self._claimant.claim(
            request, path, patience_ms=self._limits.claim_patience_ms
        )
        match answer:
            case Claimed():
                return answer
            case ClaimRefused(ClaimRefusal.READERLESS, state):
                return await self._end_readerless(request, state)
            case ClaimRefused(reason):
                _log.info("turn.refused", reason=reason.value)
                return _REFUSED
            case _:
                assert_never(answer)

    async def _expire(self, request: TurnRequest) -> TurnResult | None:
        """End a stale turn; None when somebody claimed it, so that it is no longer a matter of age."""
        terminal = expired_frame(request.turn_id, age_ms(request, self._clock.now_ms()))
        return await self._end(request, "expired", terminal, BEFORE_ANY_CLAIM)

    async def _end_readerless(self, request: TurnRequest, state: TurnState) -> TurnResult:
        attempt = state.attempt
        if attempt and not await self._is_marked(request, attempt):
            return _REFUSED
        terminal = cancelled_frame(request.turn_id, "", "disconnect")
        result = await self._end(request, "cancelled", terminal, place_of_end(state))
        return _REFUSED if result is None else result

    async def _is_marked(self, request: TurnRequest, attempt: int) -> bool:
        """True when no answer is stored, nor can be any more by this attempt or an older one.

        False leaves the turn to the sweeper: its answer is stored, so that only delivering it may end the turn, or
        the store took no marker.
        """
        marker = end_marker(
            request,
            status="cancelled",
            attempt=attempt,
            nonce=_MARKER_NONCE,
            now_ms=self._clock.now_ms(),
        )
        try:
            return await mark_end(self._store, marker) is None
        except ChatError as error:
            _log.error("turn.not_marked", error_type=type(error).__name__)
            return False

    async def _end(
        self, request: TurnRequest, status: EndStatus, terminal: TerminalMaker, place: EndPlace
    ) -> TurnResult | None:
        answer = await self._ends.end(request.ref, status, terminal, place)
        match answer:
            case Finished():
                return TurnResult(outcome="ended", status=status, attempt=place.attempt)
            case TurnEnded():
                return _REFUSED
            case TurnUnknown():
                # Nobody can be told, and nobody waits: its gateways end turns that the ledger does not know.
                _log.warning("turn.unknown")
                return _REFUSED
            case StillClaimed():
                return None
            case _:
                assert_never(answer)

    async def _tell(self, followers: Sequence[Follower], outcome: bytes) -> None:
        """Through the process's pusher, which outlives this run and keeps each connection's order."""
        self._pusher.offer(followers, [outcome])
        self._pusher.pump()
        self._pusher.forget(followers)
