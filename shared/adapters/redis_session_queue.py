"""The session queue in Redis: one round trip per verb."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_endings import RedisEndings, decode_end
from shared.adapters.redis_keys import (
    BURST_ENTERED,
    BURST_WAITING,
    SessionKeys,
    encode_ref,
    queue_mark,
)
from shared.adapters.redis_ledger_replies import (
    decode_state,
    encode_follower,
    known_state,
)
from shared.adapters.redis_scripts import Argument, load_script
from shared.contracts.identifiers import MessageId, SessionRef, TurnId, TurnRef
from shared.contracts.ledger import (
    AcceptAnswer,
    AcceptedAsHead,
    AcceptedAsWaiting,
    AcceptedDetached,
    AlreadyAccepted,
    CancelAnswer,
    CancelRequested,
    Follower,
    SessionBusy,
    TurnState,
)
from shared.contracts.server_frames import RunningTurn
from shared.contracts.turns import Path, TurnRequest, encode_turn
from shared.errors import DependencyUnavailable

RUNNING_LIMIT: Final = 50
"""Most turns that `running` answers: `session.ready` must stay a small frame."""


class RedisSessionQueue:
    """SessionQueue over lua/accept, mark_placed, find_message, read_turn, running and cancel."""

    def __init__(
        self,
        client: RedisClient,
        *,
        waiting_turns_per_session: int,
        followers_per_turn: int,
        log_kept_ms: int,
        outcome_kept_ms: int,
        first_check_ms: int = 5_000,
    ) -> None:
        """`first_check_ms` after acceptance the sweeper looks at the turn for the first time."""
        self._client = client
        self._waiting_limit = waiting_turns_per_session
        self._followers_limit = followers_per_turn
        self._endings = RedisEndings(
            client, log_kept_ms=log_kept_ms, outcome_kept_ms=outcome_kept_ms
        )
        self._unended_kept_ms = redis_keys.unended_kept_ms(outcome_kept_ms)
        self._first_check_ms = first_check_ms
        self._accept = load_script("accept", "session", "state", "followers")
        self._mark_placed = load_script("mark_placed")
        self._read_turn = load_script("read_turn", "state")
        self._find_message = load_script("find_message", "state")
        self._running = load_script("running")
        self._cancel = load_script("cancel", "session", "ending")

    async def accept(self, request: TurnRequest, follower: Follower | None) -> AcceptAnswer:
        """See SessionQueue. The due entry comes first: a lost pipeline leaves an entry to forget, never a lost turn."""
        keys = SessionKeys(request.session)
        turn_id = request.turn_id
        due = redis_keys.due(request.ref)
        first_check_at_ms = request.accepted_at_ms + self._first_check_ms
        accept = self._accept.call(
            (
                *keys.queue,
                keys.turn(turn_id),
                keys.followers(turn_id),
                keys.message(request.message_id),
            ),
            request.accepted_at_ms,
            self._unended_kept_ms,
            turn_id,
            request.message_id,
            encode_turn(request),
            queue_mark(request),
            int(request.detached),
            encode_follower(follower),
            self._followers_limit,
            self._waiting_limit,
        )
        replies = await self._client.run(
            (
                ("ZADD", due, "LT", first_check_at_ms, encode_ref(request.ref)),
                ("PEXPIRE", due, self._unended_kept_ms),
                accept,
            )
        )
        _, _, reply = map(answered, replies)
        match reply[0]:
            case b"head":
                return AcceptedAsHead()
            case b"waiting":
                return AcceptedAsWaiting(reply[1])
            case b"detached":
                return AcceptedDetached()
            case b"busy":
                # Nobody needs to look for a turn that never was; where this fails a sweeper finds the entry.
                with suppress(DependencyUnavailable):
                    await self._client.run_one(
                        ("ZREM", due, encode_ref(request.ref)), repeatable=True
                    )
                return SessionBusy()
            case _:
                return AlreadyAccepted(decode_state(reply[1:], request.session))

    async def mark_placed(self, turn: TurnRef, path: Path, at_ms: int) -> None:
        """See SessionQueue. One round trip; a second one when a worker was faster than the mark."""
        member = encode_ref(turn)
        note = self._mark_placed.call((SessionKeys(turn.session).turn(turn.turn_id),), path, at_ms)
        leave: tuple[Argument, ...] = ("ZREM", BURST_WAITING, member)
        if path != "burst":
            replies = await self._client.run((leave, note), repeatable=True)
            answered(replies[1])
            return
        forgotten_before_ms = at_ms - redis_keys.BURST_WAITING_KEPT_MS
        replies = await self._client.run(
            (
                ("ZADD", BURST_WAITING, at_ms, member),
                ("ZREMRANGEBYSCORE", BURST_WAITING, 0, forgotten_before_ms),
                ("PEXPIRE", BURST_WAITING, redis_keys.BURST_WAITING_KEPT_MS),
                ("INCR", BURST_ENTERED),
                ("PEXPIRE", BURST_ENTERED, redis_keys.BURST_WAITING_KEPT_MS),
                note,
            ),
            repeatable=True,
        )
        if not answered(replies[-1]):
            await self._client.run_one(leave, repeatable=True)

    async def find_message(self, session: SessionRef, message_id: MessageId) -> TurnState | None:
        """See SessionQueue."""
        keys = SessionKeys(session)
        call = self._find_message.call((keys.message(message_id), keys.waiting))
        reply = await self._client.run_one(call, repeatable=True)
        return known_state(reply, session)

    async def state(self, turn: TurnRef) -> TurnState | None:
        """See SessionQueue."""
        keys = SessionKeys(turn.session)
        call = self._read_turn.call((keys.turn(turn.turn_id), keys.waiting), turn.turn_id)
        reply = await self._client.run_one(call, repeatable=True)
        return known_state(reply, turn.session)

    async def running(self, session: SessionRef) -> Sequence[RunningTurn]:
        """See SessionQueue; at most RUNNING_LIMIT turns."""
        call = self._running.call(SessionKeys(session).queue, RUNNING_LIMIT)
        return [
            RunningTurn(
                turn_id=TurnId(turn_id.decode()),
                message_id=MessageId(message_id.decode()),
                attempt=int(attempt),
                last_seq=int(last_seq),
            )
            for turn_id, message_id, attempt, last_seq in await self._client.run_one(
                call, repeatable=True
            )
        ]

    async def cancel(self, turn: TurnRef, outcome: bytes, at_ms: int) -> CancelAnswer:
        """See SessionQueue. "Claimed" means claimed at least once: a lapsed turn's next claimer honours the flag."""
        reply = await self._endings.run(self._cancel, turn, at_ms, outcome)
        return CancelRequested() if reply[0] == b"requested" else decode_end(reply)
