"""Followers and turn logs in Redis: one round trip per verb."""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_keys import SessionKeys
from shared.adapters.redis_ledger_replies import STATE_LENGTH, encode_follower, known_state
from shared.adapters.redis_scripts import load_script
from shared.contracts.identifiers import TurnRef
from shared.contracts.ledger import FollowAnswer, Follower, Replay, TurnUnknown


class RedisTurnFollowers:
    """TurnFollowers over lua/follow, unfollow and detach."""

    def __init__(
        self, client: RedisClient, *, followers_per_turn: int, outcome_kept_ms: int
    ) -> None:
        self._client = client
        self._followers_limit = followers_per_turn
        self._unended_kept_ms = redis_keys.unended_kept_ms(outcome_kept_ms)
        self._follow = load_script("follow", "state", "followers")
        self._unfollow = load_script("unfollow")
        self._detach = load_script("detach")

    async def follow(
        self,
        turn: TurnRef,
        follower: Follower | None,
        *,
        attempt: int | None,
        after_seq: int,
        now_ms: int,
    ) -> FollowAnswer:
        """See TurnFollowers. Adding and reading are one step: no frame falls between replay and live."""
        keys = SessionKeys(turn.session)
        turn_id = turn.turn_id
        call = self._follow.call(
            (keys.turn(turn_id), keys.followers(turn_id), keys.log(turn_id), keys.waiting),
            turn_id,
            encode_follower(follower),
            self._followers_limit,
            self._unended_kept_ms,
            -1 if attempt is None else attempt,
            after_seq,
        )
        reply = await self._client.run_one(call, repeatable=True)
        state = known_state(reply, turn.session)
        if state is None:
            return TurnUnknown()
        from_seq, log_kept = reply[STATE_LENGTH : STATE_LENGTH + 2]
        frames = tuple(reply[STATE_LENGTH + 2 :])
        return Replay(state, from_seq, frames, bool(log_kept))

    async def unfollow(self, turns: Sequence[TurnRef], follower: Follower, now_ms: int) -> None:
        """See TurnFollowers."""
        element = encode_follower(follower)
        calls = []
        for turn in turns:
            keys = SessionKeys(turn.session)
            both = (keys.turn(turn.turn_id), keys.followers(turn.turn_id))
            calls.append(self._unfollow.call(both, now_ms, element))
        if calls:
            for reply in await self._client.run(calls, repeatable=True):
                answered(reply)

    async def detach(self, turn: TurnRef) -> None:
        """See TurnFollowers."""
        call = self._detach.call((SessionKeys(turn.session).turn(turn.turn_id),))
        await self._client.run_one(call, repeatable=True)
