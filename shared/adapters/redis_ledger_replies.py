"""What the ledger's scripts answer, as the contract's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from shared.contracts.dead_letters import AttemptRecord
from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    OwnerId,
    SessionRef,
    TurnId,
    made_at_ms,
)
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
from shared.errors import MalformedMessage, PermanentError
from shared.telemetry import Log

STATE_LENGTH: Final = 13

_log = Log("ledger")
_Value = TypeVar("_Value")
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
    """All followers, oldest first; one that cannot be read costs the others nothing."""
    return tuple(_readable(decode_follower, elements, "follower"))


def decode_request(raw: bytes, ready_at_ms: bytes) -> TurnRequest | None:
    """The ledger's copy of a turn with its true `ready_at_ms`, None when this version cannot read it."""
    try:
        request = decode_turn(raw)
    except PermanentError:
        return None
    return msgspec.structs.replace(request, ready_at_ms=int(ready_at_ms))


def decode_state(reply: Sequence[Any], session: SessionRef) -> TurnState:
    """The 13 values of `state_of` in lua/state.lua, of a turn of `session`.

    Raises MalformedMessage when its numbers or names are none: nothing can be said of such a turn.
    """
    try:
        return _decode_state(reply, session)
    except ValueError as error:
        raise MalformedMessage("the ledger holds no state of a turn", reply[0] or b"") from error


def known_state(reply: Sequence[Any], session: SessionRef) -> TurnState | None:
    """As decode_state; None for no reply, and for a turn of which nothing can be said: it counts as unknown."""
    if not reply:
        return None
    try:
        return decode_state(reply, session)
    except MalformedMessage:
        _log.error("turn.unreadable")
        return None


def _decode_state(reply: Sequence[Any], session: SessionRef) -> TurnState:
    request = decode_request(reply[0], reply[7])
    return TurnState(
        request=_ids_alone(reply, session) if request is None else request,
        unreadable=reply[0] if request is None else None,
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


def _ids_alone(reply: Sequence[Any], session: SessionRef) -> TurnRequest:
    turn_id = TurnId(reply[12].decode())
    return TurnRequest(
        turn_id=turn_id,
        session_id=session.session_id,
        message_id=MessageId(reply[11].decode()),
        tenant=session.tenant,
        user=session.user,
        text="",
        accepted_at_ms=made_at_ms(turn_id),
        ready_at_ms=int(reply[7]),
    )


def decode_attempts(elements: Sequence[bytes]) -> tuple[AttemptRecord, ...]:
    """The attempts before the present one, as claim.lua kept them, oldest first."""
    return tuple(_readable(_decode_attempt, elements, "attempt"))


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


def decode_due_turn(reply: Sequence[Any], session: SessionRef) -> DueTurn | None:
    """The answer of lua/look.lua for a turn of `session`; None when it is unknown, see known_state."""
    try:
        return _decode_due_turn(reply, session) if reply else None
    except (MalformedMessage, ValueError):
        _log.error("turn.unreadable")
        return None


def _decode_due_turn(reply: Sequence[Any], session: SessionRef) -> DueTurn:
    state, rest = decode_state(reply, session), reply[STATE_LENGTH:]
    released = None if rest[2] is None else rest[2].decode()
    recovery = Recovery(
        tries=int(rest[0] or 0),
        crashes=int(rest[1] or 0),
        released=released,
        due_at_ms=int(rest[3] or 0),
        reserved_until_ms=int(rest[4] or 0),
        dispatches=int(rest[5] or 0),
        first_dispatched_at_ms=int(rest[6] or 0),
        is_offered=rest[7] == b"1",
        is_delivery=rest[8] == b"1",
    )
    attempts = decode_attempts(rest[12])
    if state.status == "running":
        present = AttemptRecord(
            attempt=state.attempt,
            worker=rest[9].decode(),
            path=rest[10].decode(),
            started_at_ms=int(rest[11]),
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
    if reply[1] is not None and next_head is None:
        _log.error("head.unreadable")
    return Finished(decode_followers(reply[3:]), next_head)


def _readable(
    decode: Callable[[bytes], _Value], elements: Sequence[bytes], what: str
) -> Iterator[_Value]:
    for element in elements:
        try:
            yield decode(element)
        except (msgspec.MsgspecError, UnicodeError, ValueError):
            # Written by another version, or damaged: the turn has done nothing wrong.
            _log.error("element.unreadable", element=what)
