"""A user stops a turn, running or waiting."""

from __future__ import annotations

from typing import assert_never

from services.gateway.follow_ups import FollowUps
from services.gateway.replaying import Replaying
from services.gateway.session_io import CouldNotAsk, NotFound, Replayed, Stopped, Stopping
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef, TurnId, turn_of
from shared.contracts.ledger import CancelRequested, Finished, Follower, TurnEnded, TurnUnknown
from shared.contracts.server_frames import encode_frame
from shared.errors import ChatError, TransientError
from shared.ports import SessionQueue
from shared.telemetry import Log, Metrics
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.terminal_frames import BEFORE_ANY_CLAIM, cancelled_frame
from shared.turn.unclaimed_ends import count_end

_TRIES = 3
_TRY_AGAIN_S = 0.3

_log = Log("cancelling")


class Cancelling:
    """The use case behind `chat.cancel`."""

    def __init__(
        self,
        *,
        sessions: SessionQueue,
        replaying: Replaying,
        follow_ups: FollowUps,
        clock: Clock,
        metrics: Metrics,
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        self._sessions = sessions
        self._replaying = replaying
        self._follow_ups = follow_ups
        self._clock = clock
        self._metrics = metrics
        self._ended = ended

    async def cancel(
        self, session: SessionRef, turn_id: TurnId, follower: Follower | None
    ) -> Stopping | Stopped | NotFound | CouldNotAsk:
        """Stop the turn; the sender follows it until its end. Raises nothing: a ledger that is away is asked again.

        Repeating it is safe: an ended turn answers its terminal frame.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                return await self._cancel(session, turn_id, follower)
            except ChatError as error:
                _log.warning("cancel.unavailable", turn_id=turn_id, error_type=type(error).__name__)
                if not isinstance(error, TransientError):
                    break
            if tries_left:
                await self._clock.sleep(_TRY_AGAIN_S)
        return CouldNotAsk(turn_id, "cancel")

    async def _cancel(
        self, session: SessionRef, turn_id: TurnId, follower: Follower | None
    ) -> Stopping | Stopped | NotFound | CouldNotAsk:
        turn = turn_of(session, turn_id)
        if turn is None:
            return NotFound(turn_id, "cancel")
        terminal = cancelled_frame(turn_id, "", "user")
        outcome = encode_frame(terminal(*BEFORE_ANY_CLAIM))
        answer = await self._sessions.cancel(turn, outcome, self._clock.now_ms())
        match answer:
            case CancelRequested():
                if follower is not None:
                    await self._follow(session, turn_id, follower)
                return Stopping(turn_id)
            case Finished():
                count_end(self._metrics, "cancelled", path="unclaimed")
                self._ended.unclaimed(
                    turn, "cancelled", by="gateway", now_ms=self._clock.now_ms(), code="user"
                )
                sender = None if follower is None else follower.connection_id
                await self._follow_ups.start(answer, outcome, sender)
                return Stopped(turn_id, outcome)
            case TurnEnded():
                if answer.status == "rejected":
                    return NotFound(turn_id, "cancel")
                return Stopped(turn_id, answer.outcome)
            case TurnUnknown():
                return await self._stored_end(session, turn_id)
            case _:
                assert_never(answer)

    async def _follow(self, session: SessionRef, turn_id: TurnId, follower: Follower) -> None:
        """The terminal frame goes to the sender of the cancel, who may not have followed the turn so far."""
        await self._replaying.replay(
            session, turn_id, follower, attempt=None, after_seq=-1, purpose="cancel"
        )

    async def _stored_end(
        self, session: SessionRef, turn_id: TurnId
    ) -> Stopped | NotFound | CouldNotAsk:
        answer = await self._replaying.replay(
            session, turn_id, None, attempt=None, after_seq=-1, purpose="cancel"
        )
        return Stopped(turn_id, answer.frames[-1]) if isinstance(answer, Replayed) else answer
