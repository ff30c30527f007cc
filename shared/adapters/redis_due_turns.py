"""The due index in Redis: one round trip per verb, whatever the number of sets and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from redis.exceptions import ResponseError

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, Reply, answered
from shared.adapters.redis_keys import DUE_SHARDS, SessionKeys, decode_ref, due_shard, encode_ref
from shared.adapters.redis_ledger_replies import decode_due_turn
from shared.adapters.redis_scripts import Argument, Call, load_script
from shared.contracts.identifiers import TurnRef
from shared.contracts.recovery import DueEntry, DueMove, DueTurn, ReservationKind
from shared.telemetry import Log

HELD_MS: Final = 1_500
"""A sweeper that died delays the sets that it held by no more than this; a lease takes longer to lapse."""

_log = Log("due_turns")


class RedisDueTurns:
    """DueTurns over lua/due, look, move_due and reserve."""

    def __init__(
        self, client: RedisClient, *, outcome_kept_ms: int, held_ms: int = HELD_MS
    ) -> None:
        self._client = client
        self._unended_kept_ms = redis_keys.unended_kept_ms(outcome_kept_ms)
        self._held_ms = held_ms
        self._due = load_script("due")
        self._look = load_script("look", "session", "state")
        self._move = load_script("move_due")
        self._reserve = load_script("reserve")

    async def ask(self) -> None:
        """See DueTurns."""
        await self._client.run_one(("EXISTS", due_shard(0)), repeatable=True)

    async def due(self, *, sweeper: str, now_ms: int, limit: int) -> Sequence[DueEntry]:
        """See DueTurns. Members that no version of ours wrote are removed."""
        calls = [
            self._due.call(
                (due_shard(shard), redis_keys.sweeper(shard)),
                now_ms,
                sweeper,
                self._held_ms,
                limit,
            )
            for shard in range(DUE_SHARDS)
        ]
        entries: list[DueEntry] = []
        foreign: list[Call] = []
        for shard, reply in enumerate(await self._client.run(calls, repeatable=True)):
            members = answered(reply)
            for member, score in zip(members[::2], members[1::2], strict=True):
                try:
                    entries.append(DueEntry(decode_ref(member), int(float(score))))
                except msgspec.MsgspecError:
                    foreign.append(("ZREM", due_shard(shard), member))
        if foreign:
            _log.warning("due.foreign_entries", entries=len(foreign))
            await self._client.run(foreign, repeatable=True)
        return entries

    async def look(self, turns: Sequence[TurnRef], now_ms: int) -> Sequence[DueTurn | None]:
        """See DueTurns."""
        if not turns:
            return []
        calls = [self._look_call(turn, now_ms) for turn in turns]
        replies = await self._client.run(calls, repeatable=True)
        return [_due_turn(turn, reply) for turn, reply in zip(turns, replies, strict=True)]

    async def move(self, moves: Sequence[DueMove]) -> Sequence[bool]:
        """See DueTurns."""
        by_set: dict[str, list[int]] = {}
        for index, move in enumerate(moves):
            by_set.setdefault(redis_keys.due(move.entry.turn), []).append(index)
        if not by_set:
            return []
        calls = [
            self._move.call((name,), *(each for index in indexes for each in _triple(moves[index])))
            for name, indexes in by_set.items()
        ]
        moved = [False] * len(moves)
        # Not repeated by itself: a second try would find the entry moved, by us, and say no.
        replies = await self._client.run(calls)
        for indexes, reply in zip(by_set.values(), replies, strict=True):
            for index, done in zip(indexes, answered(reply), strict=True):
                moved[index] = done == 1
        return moved

    async def reserve(
        self,
        turn: TurnRef,
        *,
        sweeper: str,
        attempt: int,
        dispatches: int,
        kind: ReservationKind,
        until_ms: int,
        now_ms: int,
    ) -> bool:
        """See DueTurns."""
        call = self._reserve.call(
            (SessionKeys(turn.session).turn(turn.turn_id),),
            now_ms,
            sweeper,
            attempt,
            dispatches,
            until_ms,
            kind,
        )
        return bool(await self._client.run_one(call, repeatable=True))

    def _look_call(self, turn: TurnRef, now_ms: int) -> Call:
        keys = SessionKeys(turn.session)
        return self._look.call(
            (*keys.queue, keys.turn(turn.turn_id)), now_ms, self._unended_kept_ms, turn.turn_id
        )


def _triple(move: DueMove) -> tuple[Argument, ...]:
    member = encode_ref(move.entry.turn)
    return (member, move.entry.due_at_ms, "" if move.at_ms is None else move.at_ms)


def _due_turn(turn: TurnRef, reply: Reply) -> DueTurn | None:
    if isinstance(reply, ResponseError):
        # A damaged turn must not stop its neighbours in the pipeline.
        _log.warning("turn.unreadable", turn_id=turn.turn_id, error_type=type(reply).__name__)
        return None
    return decode_due_turn(reply, turn.session)
