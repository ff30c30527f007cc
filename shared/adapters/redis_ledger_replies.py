"""What the ledger's scripts answer, as the contract's values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from shared.contracts.dead_letters import AttemptRecord
from shared.contracts.identifiers import ConnectionId, OwnerId
from shared.contracts.ledger import (
    Fenced,
    Finished,
    Follower,
    Held,
    HoldAnswer,
    LogGap,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from shared.contracts.recovery import DueTurn, Recovery
from shared.contracts.turns import TurnRequest, decode_turn

STATE_LENGTH: Final = 11

_attempt_decoder = msgspec.json.Decoder(tuple[str, str, str, str, str, str])
_follower_decoder = msgspec.json.Decoder(tuple[str, str, str])


@lru_cache(maxsize=4096)
def encode_follower(follower: Follower | None) -> bytes:
    """A follower as an element of a turn's list; empty for None."""
    if follower is None:
        return b""
    return msgspec.json.encode((follower.connection_id, follower.endpoint, follower.owner))


@lru_cache(maxsize=4096)
def decode_follower(element: bytes) -> Follower:
    """The follower of a list element. Cached: every append of a turn answers the same ones."""
    connection_id, endpoint, owner = _follower_decoder.decode(element)
    return Follower(ConnectionId(connection_id), endpoint, OwnerId(owner))


def decode_followers(elements: Sequence[bytes]) -> tuple[Follower, ...]:
    """All followers, oldest first."""
    return tuple(map(decode_follower, elements))


def decode_request(raw: bytes, ready_at_ms: bytes) -> TurnRequest:
    """The ledger's copy of a turn with its true `ready_at_ms`."""
    return msgspec.structs.replace(decode_turn(raw), ready_at_ms=int(ready_at_ms))


def decode_state(reply: Sequence[Any]) -> TurnState:
    """The 11 values of `state_of` in lua/state.lua."""
    return TurnState(
        request=decode_request(reply[0], reply[7]),
        status=reply[1].decode(),
        placed=reply[2].decode(),
        placed_at_ms=int(reply[3]),
        attempt=int(reply[4]),
        last_seq=int(reply[5]),
        lease_until_ms=int(reply[6]),
        cancel_requested=reply[8] == b"1",
        outcome=reply[9],
        position=reply[10],
    )


def decode_attempts(elements: Sequence[bytes]) -> tuple[AttemptRecord, ...]:
    """The attempts before the present one, as claim.lua kept them, oldest first."""
    return tuple(map(_decode_attempt, elements))


def _decode_attempt(element: bytes) -> AttemptRecord:
    attempt, worker, path, started_at_ms, ended_at_ms, outcome = _attempt_decoder.decode(element)
    return AttemptRecord(
        attempt=int(attempt),
        worker=worker,
        path=path,
        started_at_ms=int(started_at_ms),
        ended_at_ms=int(ended_at_ms),
        outcome=outcome,
    )


def decode_due_turn(reply: Sequence[Any]) -> DueTurn:
    """The answer of lua/look.lua for a turn that is known."""
    state = decode_state(reply[:STATE_LENGTH])
    released = None if reply[13] is None else reply[13].decode()
    recovery = Recovery(
        tries=int(reply[11] or 0),
        crashes=int(reply[12] or 0),
        released=released,
        due_at_ms=int(reply[14] or 0),
        reserved_until_ms=int(reply[15] or 0),
        dispatches=int(reply[16] or 0),
        first_dispatched_at_ms=int(reply[17] or 0),
        is_offered=reply[18] == b"1",
        is_delivery=reply[19] == b"1",
    )
    attempts = decode_attempts(reply[23])
    if state.status == "running":
        present = AttemptRecord(
            attempt=state.attempt,
            worker=reply[20].decode(),
            path=reply[21].decode(),
            started_at_ms=int(reply[22]),
            ended_at_ms=state.lease_until_ms,
            outcome=released or "crashed",
        )
        attempts = (*attempts, present)
    return DueTurn(state=state, recovery=recovery, attempts=attempts)


def decode_hold(reply: Sequence[Any]) -> HoldAnswer:
    """The answer of `hold` in lua/producer.lua."""
    kind = reply[0]
    if kind == b"held":
        return Held(decode_followers(reply[3:]), reply[1] == b"1", int(reply[2]))
    return decode_refusal(reply)


def decode_refusal(reply: Sequence[Any]) -> Fenced | TurnEnded | LogGap | TurnUnknown:
    """Any answer that is not the wished one."""
    match reply[0]:
        case b"fenced":
            return Fenced(reply[1])
        case b"ended":
            return TurnEnded(reply[1].decode(), reply[2])
        case b"gap":
            return LogGap(reply[1])
        case b"unknown":
            return TurnUnknown()
        case kind:
            raise AssertionError(f"a script answered {kind!r}")


def decode_finished(reply: Sequence[Any]) -> Finished:
    """The answer of `end_turn` in lua/ending.lua."""
    next_head = None if reply[1] is None else decode_request(reply[1], reply[2])
    return Finished(decode_followers(reply[3:]), next_head)
