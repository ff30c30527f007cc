"""A turn as HTTP shows it, whatever state it is in (the turn object of PROTOCOL §6)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from shared.clock import Clock
from shared.contracts.identifiers import MessageId, SessionId, SessionRef, TurnId, turn_of
from shared.contracts.ledger import Replay, TurnUnknown
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponseStarted,
    SourceLink,
    Timings,
    Usage,
    decode_server_frame,
)
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import TurnStatus
from shared.ports import TurnFollowers, TurnStore


class TurnObject(msgspec.Struct, frozen=True, kw_only=True):
    """Fields without value are absent. `text` of a running turn is what its current attempt has logged."""

    turn_id: TurnId
    session_id: SessionId
    message_id: MessageId
    status: TurnStatus
    attempt: int
    path: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    stop_reason: str | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    timings: Timings | UnsetType = UNSET
    sources: tuple[SourceLink, ...] | UnsetType = UNSET
    code: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    accepted_at_ms: int | UnsetType = UNSET
    completed_at_ms: int | UnsetType = UNSET


class TurnLookup:
    """Reads the ledger, and for ended turns the store."""

    def __init__(self, followers: TurnFollowers, store: TurnStore, clock: Clock) -> None:
        self._followers = followers
        self._store = store
        self._clock = clock

    async def find(self, caller: SessionRef, turn_id: TurnId) -> TurnObject | None:
        """The caller's turn, None when there is none of that id. Raises DependencyUnavailable."""
        turn = turn_of(caller, turn_id)
        if turn is None:
            return None
        answer = await self._followers.follow(
            turn, None, attempt=None, after_seq=-1, now_ms=self._clock.now_ms()
        )
        known = None if isinstance(answer, TurnUnknown) else answer
        if known is not None and known.state.status == "rejected":
            return None
        if known is None or known.state.status in {"completed", "cancelled"}:
            stored = await self._store.get(turn)
            if stored is not None and stored.status != "marker":
                return _from_store(stored)
        return None if known is None else _from_ledger(known)


def _from_store(stored: StoredTurn) -> TurnObject:
    return TurnObject(
        turn_id=stored.ref.turn_id,
        session_id=stored.ref.session.session_id,
        message_id=MessageId(stored.message_id),
        status="cancelled" if stored.status == "cancelled" else "completed",
        attempt=stored.attempt,
        path=stored.path or UNSET,
        text=stored.assistant_text,
        stop_reason=stored.stop_reason,
        usage=stored.usage,
        timings=stored.timings,
        sources=stored.sources,
        accepted_at_ms=stored.accepted_at_ms,
        completed_at_ms=stored.completed_at_ms,
    )


def _from_ledger(replay: Replay) -> TurnObject:
    state = replay.state
    details: dict[str, Any] = {}
    if state.status in {"running", "completed", "cancelled"}:
        frames = [decode_server_frame(frame) for frame in replay.frames]
        details["text"] = "".join(
            frame.delta for frame in frames if isinstance(frame, ResponseDelta)
        )
        details["path"] = next(
            (frame.path for frame in frames if isinstance(frame, ResponseStarted)), UNSET
        )
    if state.outcome is not None:
        details.update(_outcome_details(state.outcome))
    return TurnObject(
        turn_id=state.request.turn_id,
        session_id=state.request.session_id,
        message_id=state.request.message_id,
        status=state.status,
        attempt=state.attempt,
        accepted_at_ms=state.request.accepted_at_ms,
        **details,
    )


def _outcome_details(outcome: bytes) -> dict[str, Any]:
    frame = decode_server_frame(outcome)
    if isinstance(frame, ResponseCompleted):
        return {
            "stop_reason": frame.stop_reason,
            "usage": frame.usage,
            "timings": frame.timings,
            "sources": frame.sources,
        }
    if isinstance(frame, ResponseFailed):
        return {
            "code": frame.code,
            "message": frame.message,
            "stop_reason": frame.stop_reason,
            "retry_after_ms": frame.retry_after_ms,
        }
    return {"stop_reason": "cancelled"} if isinstance(frame, ResponseCancelled) else {}
