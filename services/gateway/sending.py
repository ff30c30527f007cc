"""A user message becomes a turn, or is refused in words."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from services.gateway.door import Door, Refusal, unavailable
from services.gateway.follow_ups import FollowUps
from services.gateway.masking import Masking
from services.gateway.offering import Offering
from services.gateway.session_io import Accepted, Refused
from shared.clock import Clock, Randomness
from shared.contracts.identifiers import MessageId, SessionRef, TurnId, new_turn_id
from shared.contracts.ledger import (
    AcceptedAsHead,
    AcceptedAsWaiting,
    AcceptedDetached,
    AlreadyAccepted,
    Finished,
    Follower,
    SessionBusy,
    StillClaimed,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from shared.contracts.server_frames import AcceptedPath, ChatRejected, encode_frame
from shared.contracts.turns import Priority, TurnRequest
from shared.errors import ChatError
from shared.policy.backoff import spread_ms
from shared.policy.limits import DetachedLimits
from shared.policy.routing import has_own_queue
from shared.ports import SessionQueue, TurnClaims
from shared.telemetry import Log, Metrics
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns

_BUSY_RETRY_MS = 5_000

_log = Log("sending")


class Sending:
    """The use case behind `chat.send` and `POST /v1/chat`."""

    def __init__(
        self,
        *,
        sessions: SessionQueue,
        claims: TurnClaims,
        offering: Offering,
        follow_ups: FollowUps,
        door: Door,
        masking: Masking,
        limits: DetachedLimits,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        self._sessions = sessions
        self._claims = claims
        self._offering = offering
        self._follow_ups = follow_ups
        self._door = door
        self._masking = masking
        self._limits = limits
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._ended = ended

    async def send(
        self,
        session: SessionRef,
        message_id: MessageId,
        text: str,
        metadata: dict[str, Any],
        follower: Follower | None,
        *,
        priority: Priority = "high",
        detached: bool = False,
    ) -> Accepted | Refused:
        """Accept and place the message; `follower` receives its frames. Raises nothing.

        Repeating a message id that is known is never refused and never starts a second turn. A `detached` turn goes
        on without followers; of lower `priority` it has a queue and a limit of its own.
        """
        admission = await self._door.admit(session, message_id, priority)
        if isinstance(admission, Refusal):
            return self._refused(message_id, admission)
        said, (text, metadata) = text, self._masking.message(text, metadata)
        now_ms = self._clock.now_ms()
        request = TurnRequest(
            turn_id=new_turn_id(session.session_id, now_ms, self._randomness.token_bytes(10)),
            session_id=session.session_id,
            message_id=message_id,
            tenant=session.tenant,
            user=session.user,
            text=text,
            metadata=metadata,
            connection_id=None if follower is None else follower.connection_id,
            accepted_at_ms=now_ms,
            trace=self._randomness.token_bytes(8).hex(),
            priority=priority,
            detached=detached,
        )
        if has_own_queue(request):
            limit_at_ms = now_ms + self._limits.of(priority)
            request = msgspec.structs.replace(request, limit_at_ms=limit_at_ms, reason="detached")
        try:
            answer = await self._accept(request, follower)
        except ChatError as error:
            _log.warning(
                "send.unavailable",
                session_id=session.session_id,
                turn_id=request.turn_id,
                error_type=type(error).__name__,
            )
            return self._refused(message_id, unavailable(), request.turn_id)
        if isinstance(answer, Refused):
            return answer
        if admission.is_counted:
            self._door.settle(session, priority, answer.path, duplicate=answer.duplicate)
        return answer if text == said else msgspec.structs.replace(answer, masked_text=text)

    async def _accept(self, request: TurnRequest, follower: Follower | None) -> Accepted | Refused:
        answer = await self._sessions.accept(request, follower)
        match answer:
            case AcceptedAsHead():
                head = msgspec.structs.replace(request, ready_at_ms=request.accepted_at_ms)
                return await self._place(head, follower)
            case AcceptedAsWaiting(position=position):
                self._metrics.count("AcceptedTurns", path="waiting")
                return _accepted(request, position=position)
            case AlreadyAccepted(state=state):
                self._metrics.count("DuplicateMessages")
                return known_turn(request.message_id, state)
            case SessionBusy():
                message = "Please wait for the answers to your earlier messages."
                refusal = Refusal("busy", message, _BUSY_RETRY_MS, "waiting_turns")
                return self._refused(request.message_id, refusal)
            case AcceptedDetached():
                # A queue that cannot be asked costs seconds, not the turn: the sweeper sends what was not sent.
                await self._offering.dispatch(request)
                self._metrics.count("AcceptedTurns", path="queue")
                return Accepted(
                    message_id=request.message_id, turn_id=request.turn_id, path="queue"
                )
            case _:
                assert_never(answer)

    async def _place(self, head: TurnRequest, follower: Follower | None) -> Accepted | Refused:
        try:
            placed = await self._offering.offer(head)
        except ChatError as error:
            _log.warning("head.not_placed", turn_id=head.turn_id, error_type=type(error).__name__)
            placed = unavailable()
        if not isinstance(placed, Refusal):
            self._metrics.count("AcceptedTurns", path=placed)
            return Accepted(message_id=head.message_id, turn_id=head.turn_id, path=placed)
        return await self._take_back(head, placed, follower)

    async def _take_back(
        self, head: TurnRequest, refusal: Refusal, follower: Follower | None
    ) -> Accepted | Refused:
        """Nobody took the turn: it is rejected, unless some worker has claimed it in the meantime."""
        refused = self._refused(head.message_id, refusal, head.turn_id)
        outcome = encode_frame(
            ChatRejected(
                message_id=head.message_id,
                code=refusal.code,
                message=refusal.message,
                retry_after_ms=msgspec.UNSET
                if refused.retry_after_ms is None
                else refused.retry_after_ms,
                reason=refusal.reason,
            )
        )
        answer = await self._claims.end_unclaimed(
            head.ref, status="rejected", outcome=outcome, now_ms=self._clock.now_ms()
        )
        match answer:
            case Finished():
                sender = None if follower is None else follower.connection_id
                self._ended.unclaimed(
                    head.ref,
                    "rejected",
                    by="gateway",
                    now_ms=self._clock.now_ms(),
                    code=refusal.code,
                    request=head,
                )
                await self._follow_ups.start(answer, outcome, sender)
                return refused
            case TurnUnknown():
                return refused
            case StillClaimed(state=state):
                return known_turn(head.message_id, state, duplicate=False)
            case TurnEnded():
                return Accepted(message_id=head.message_id, turn_id=head.turn_id, path="inline")
            case _:
                assert_never(answer)

    def _refused(
        self, message_id: MessageId, refusal: Refusal, turn_id: TurnId | None = None
    ) -> Refused:
        self._metrics.count("RejectedMessages", code=refusal.code, reason=refusal.reason)
        _log.info("message.rejected", code=refusal.code, reason=refusal.reason)
        return Refused(
            message_id=message_id,
            code=refusal.code,
            message=refusal.message,
            # Spread, or all who were refused in one second come back in one second.
            retry_after_ms=spread_ms(refusal.retry_after_ms, self._randomness.uniform(0, 1)),
            turn_id=turn_id,
            reason=refusal.reason,
        )


def known_turn(message_id: MessageId, state: TurnState, *, duplicate: bool = True) -> Accepted:
    """The answer for a turn that exists: `waiting` while it waits, else where it was last put."""
    return Accepted(
        message_id=message_id,
        turn_id=state.request.turn_id,
        path=_path(state),
        duplicate=duplicate,
        position=state.position,
        status=state.status,
    )


def _path(state: TurnState) -> AcceptedPath:
    if state.position:
        return "waiting"
    return "inline" if state.placed == "waiting" else state.placed


def _accepted(request: TurnRequest, *, position: int) -> Accepted:
    return Accepted(
        message_id=request.message_id,
        turn_id=request.turn_id,
        path="waiting",
        position=position,
    )
