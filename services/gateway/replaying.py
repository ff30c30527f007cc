"""What a reader missed of a turn: from the log, else from the store."""

from __future__ import annotations

import msgspec

from services.gateway.session_io import CouldNotAsk, NotFound, Purpose, Replayed
from services.gateway.turn_view import frame_head
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef, TurnId, TurnRef, turn_of
from shared.contracts.ledger import Follower, Replay, TurnState, TurnUnknown
from shared.contracts.server_frames import decode_server_frame, encode_frame
from shared.errors import ChatError
from shared.ports import TurnFollowers, TurnStore
from shared.telemetry import Log
from shared.turn.stored_replay import stored_frames

_NOTHING_SEEN = (0, -1)

_log = Log("replaying")


class Replaying:
    """The use case behind `chat.resume`, duplicates and the look at a silent turn."""

    def __init__(self, followers: TurnFollowers, store: TurnStore, clock: Clock) -> None:
        self._followers = followers
        self._store = store
        self._clock = clock

    async def replay(
        self,
        session: SessionRef,
        turn_id: TurnId,
        follower: Follower | None,
        *,
        attempt: int | None,
        after_seq: int,
        purpose: Purpose,
    ) -> Replayed | NotFound | CouldNotAsk:
        """Add the follower (None only reads), then read. Raises nothing.

        A `check` of a turn that has ended at or below (`attempt`, `after_seq`), which the reader has, is answered above
        it: the ledger has lost what came in between, and the reader ignores what is lower. A `resume` is answered as
        it is asked.
        """
        turn = turn_of(session, turn_id)
        if turn is None:
            return NotFound(turn_id, purpose)
        try:
            answer = await self._followers.follow(
                turn,
                follower,
                attempt=attempt,
                after_seq=after_seq,
                now_ms=self._clock.now_ms(),
            )
            seen = (attempt or 0, after_seq) if purpose == "check" else _NOTHING_SEEN
            if isinstance(answer, TurnUnknown):
                return await self._stored(turn, purpose, seen[0]) or _lost(turn_id, purpose)
            if answer.state.status == "rejected":
                return NotFound(turn_id, purpose)
            state = answer.state
            if state.outcome is not None and (
                not answer.log_kept or _is_overtaken(state, state.outcome, seen)
            ):
                return await self._ended(turn, state, state.outcome, purpose, seen[0])
        except ChatError as error:
            _log.warning("replay.unavailable", turn_id=turn_id, error_type=type(error).__name__)
            return CouldNotAsk(turn_id, purpose)
        return _from_log(turn_id, answer, purpose)

    async def _ended(
        self, turn: TurnRef, state: TurnState, outcome: bytes, purpose: Purpose, seen: int
    ) -> Replayed:
        """The log is of no use, the outcome is: the stored text if there is one, else the terminal frame alone."""
        if state.attempt > 0:
            stored = await self._stored(turn, purpose, seen)
            if stored is not None:
                return stored
        attempt = max(state.attempt, seen) if state.attempt else 0
        return Replayed(
            turn_id=turn.turn_id,
            purpose=purpose,
            attempt=attempt + 1 if attempt else 0,
            from_seq=0,
            frames=(terminal_alone(outcome, attempt),),
            complete=True,
            is_stored=True,
        )

    async def _stored(self, turn: TurnRef, purpose: Purpose, seen: int) -> Replayed | None:
        stored = await self._store.get(turn)
        if stored is None or stored.status == "marker":
            return None
        attempt = max(stored.attempt, seen) + 1
        return Replayed(
            turn_id=turn.turn_id,
            purpose=purpose,
            attempt=attempt,
            from_seq=0,
            frames=tuple(encode_frame(frame) for frame in stored_frames(stored, attempt=attempt)),
            complete=True,
            is_stored=True,
        )


def _is_overtaken(state: TurnState, outcome: bytes, seen: tuple[int, int]) -> bool:
    return state.attempt > 0 and (state.attempt, frame_head(outcome).seq) <= seen


def _lost(turn_id: TurnId, purpose: Purpose) -> NotFound:
    if purpose == "check":
        # It was accepted, and no request is left for a dead letter: unless its producer enters it anew, this is all
        # the evidence of an end as lost.
        _log.warning("turn.lost", turn_id=turn_id)
    return NotFound(turn_id, purpose)


def terminal_alone(outcome: bytes, attempt: int) -> bytes:
    """An end without text, for a reader whose log is gone: of `attempt` + 1 with seq 0, so that it is next in order.

    Ends before any claim (attempt 0) stay as they are.
    """
    if attempt == 0:
        return outcome
    frame = decode_server_frame(outcome)
    return encode_frame(msgspec.structs.replace(frame, attempt=attempt + 1, seq=0))


def _from_log(turn_id: TurnId, answer: Replay, purpose: Purpose) -> Replayed:
    state, frames = answer.state, answer.frames
    if state.outcome is not None and (not frames or not frame_head(frames[-1]).is_terminal):
        frames = (*frames, state.outcome)
    is_queued = (
        state.status == "waiting"
        and not state.is_ended
        and state.placed == "burst"
        and state.position == 0
    )
    return Replayed(
        turn_id=turn_id,
        purpose=purpose,
        attempt=state.attempt,
        from_seq=answer.from_seq,
        frames=frames,
        complete=state.is_ended,
        is_queued=is_queued,
        queued_at_ms=state.placed_at_ms,
    )
