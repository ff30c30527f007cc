"""Running the scripts that may end a turn nobody holds: `cancel` and `end_unclaimed`."""

from __future__ import annotations

from shared.adapters.redis_client import RedisClient, Reply, answered
from shared.adapters.redis_keys import BURST_WAITING, SessionKeys, encode_ref, unended_kept_ms
from shared.adapters.redis_ledger_replies import decode_finished
from shared.adapters.redis_scripts import Argument, Script
from shared.contracts.identifiers import TurnRef
from shared.contracts.ledger import Finished, TurnEnded, TurnUnknown


class RedisEndings:
    """Their keys, times to live and common answers. What ended no longer counts as waiting in burst."""

    def __init__(self, client: RedisClient, *, log_kept_ms: int, outcome_kept_ms: int) -> None:
        self._client = client
        self._log_kept_ms = log_kept_ms
        self._outcome_kept_ms = outcome_kept_ms

    async def run(self, script: Script, turn: TurnRef, now_ms: int, *words: Argument) -> Reply:
        """One round trip, not repeated by itself: a second try would find the turn ended, by us."""
        keys = SessionKeys(turn.session)
        turn_id = turn.turn_id
        call = script.call(
            (*keys.queue, keys.turn(turn_id), keys.followers(turn_id), keys.log(turn_id)),
            now_ms,
            unended_kept_ms(self._outcome_kept_ms),
            turn_id,
            *words,
            self._log_kept_ms,
            self._outcome_kept_ms,
        )
        replies = await self._client.run((call, ("ZREM", BURST_WAITING, encode_ref(turn))))
        reply, _ = map(answered, replies)
        return reply


def decode_end(reply: Reply) -> Finished | TurnEnded | TurnUnknown:
    """The answers that both scripts have in common."""
    match reply[0]:
        case b"finished":
            return decode_finished(reply)
        case b"ended":
            return TurnEnded(reply[1].decode(), reply[2])
        case _:
            return TurnUnknown()
