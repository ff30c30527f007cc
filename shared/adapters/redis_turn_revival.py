"""Reopening failed turns in Redis: one round trip."""

from __future__ import annotations

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_keys import SessionKeys, encode_ref, queue_mark
from shared.adapters.redis_scripts import load_script
from shared.contracts.ledger import NotReopened, ReopenAnswer, Reopened
from shared.contracts.turns import TurnRequest, encode_turn


class RedisTurnRevival:
    """TurnRevival over lua/reopen."""

    def __init__(
        self, client: RedisClient, *, outcome_kept_ms: int, first_check_ms: int = 5_000
    ) -> None:
        """`first_check_ms` after the reopening the sweeper looks at the turn for the first time."""
        self._client = client
        self._unended_kept_ms = redis_keys.unended_kept_ms(outcome_kept_ms)
        self._first_check_ms = first_check_ms
        self._reopen = load_script("reopen", "session")

    async def reopen(self, request: TurnRequest, *, now_ms: int) -> ReopenAnswer:
        """See TurnRevival. The due entry comes first, as at acceptance."""
        keys = SessionKeys(request.session)
        turn_id = request.turn_id
        due = redis_keys.due(request.ref)
        reopen = self._reopen.call(
            (
                *keys.queue,
                keys.turn(turn_id),
                keys.followers(turn_id),
                keys.log(turn_id),
                keys.message(request.message_id),
            ),
            now_ms,
            self._unended_kept_ms,
            turn_id,
            request.message_id,
            encode_turn(request),
            queue_mark(request),
            request.attempt_hint,
        )
        # Not repeated by itself: a second try would find the turn waiting, by us, and say no.
        replies = await self._client.run(
            (
                ("ZADD", due, "LT", now_ms + self._first_check_ms, encode_ref(request.ref)),
                ("PEXPIRE", due, self._unended_kept_ms),
                reopen,
            )
        )
        _, _, reply = map(answered, replies)
        if reply[0] == b"reopened":
            return Reopened(reply[1])
        return NotReopened(reply[1].decode())
