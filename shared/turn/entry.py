"""Before the work: is the turn still worth it, and is it ours?"""

from __future__ import annotations

from typing import assert_never

from shared.clock import Clock
from shared.contracts.ledger import (
    Claimed,
    ClaimRefusal,
    ClaimRefused,
    Finished,
    StillClaimed,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseExpired,
    TerminalFrame,
    encode_frame,
)
from shared.contracts.turns import EndStatus, Path, TurnRequest
from shared.policy.limits import TurnLimits
from shared.policy.staleness import age_ms, is_stale
from shared.ports import TurnClaims, TurnDispatcher, TurnStore
from shared.telemetry import Log
from shared.turn.claimant import Claimant
from shared.turn.markers import end_marker, mark_end
from shared.turn.pusher import Pusher
from shared.turn.result import TurnResult
from shared.turn.stored_replay import text_digest

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
        self._claims = claims
        self._store = store
        self._dispatcher = dispatcher
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
        frame = ResponseExpired(
            turn_id=request.turn_id,
            attempt=0,
            seq=0,
            age_ms=age_ms(request, self._clock.now_ms()),
        )
        return await self._end(request, "expired", frame, attempt=0)

    async def _end_readerless(self, request: TurnRequest, state: TurnState) -> TurnResult:
        attempt = state.attempt
        frame = ResponseCancelled(
            turn_id=request.turn_id,
            attempt=attempt,
            seq=state.last_seq + 1 if attempt else 0,
            by="disconnect",
            length=0,
            sha256=text_digest(""),
        )
        if attempt and await self._is_answered(request, attempt):
            # Its answer is stored: only delivering that may end it, and the sweeper asks for a takeover.
            return _REFUSED
        result = await self._end(request, "cancelled", frame, attempt=attempt)
        return _REFUSED if result is None else result

    async def _is_answered(self, request: TurnRequest, attempt: int) -> bool:
        """True when an answer is stored; otherwise none can be stored any more by this attempt or an older one."""
        marker = end_marker(
            request,
            status="cancelled",
            attempt=attempt,
            nonce=_MARKER_NONCE,
            now_ms=self._clock.now_ms(),
        )
        return await mark_end(self._store, marker) is not None

    async def _end(
        self, request: TurnRequest, status: EndStatus, frame: TerminalFrame, *, attempt: int
    ) -> TurnResult | None:
        outcome = encode_frame(frame)
        answer = await self._claims.end_unclaimed(
            request.ref,
            status=status,
            outcome=outcome,
            now_ms=self._clock.now_ms(),
            attempt=attempt,
        )
        match answer:
            case Finished(followers, next_head):
                self._pusher.offer(followers, [outcome])
                self._pusher.pump()
                self._pusher.forget(followers)
                if next_head is not None:
                    await self._dispatcher.dispatch(next_head)
                return TurnResult(outcome="ended", status=status, attempt=attempt)
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
