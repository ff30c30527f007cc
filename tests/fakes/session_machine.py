"""One connection's session machine, fed with frames of one turn: times are epoch ms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from services.gateway.followed_turns import FollowLimits
from services.gateway.frames_in import InputLimits
from services.gateway.lifetime import LifetimeLimits
from services.gateway.session import Session, SessionLimits
from services.gateway.session_io import Accepted, Action, AskSend, Replayed, Write
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import ConnectionId, MessageId, TurnId

T0 = 1_700_000_000_000
TURN = TurnId("s1.01ARZ3NDEKTSV4RRFFQ69G5FAV")
OTHER = TurnId("s1.01ARZ3NDEKTSV4RRFFQ69G5FAW")
MESSAGE = MessageId("m1")
SEND = '{"type":"chat.send","message_id":"m1","text":"hello"}'
LIMITS = SessionLimits(
    input=InputLimits(message_bytes=16_384, metadata_bytes=1_024),
    turns=FollowLimits(
        accepted_hold_ms=3_000, silent_turn_check_ms=3_000, lost_turn_after_ms=10_000
    ),
    lifetime=LifetimeLimits(idle_close_ms=300_000, max_age_ms=6_600_000),
    heartbeat_ms=25_000,
    protocol_errors_per_min=20,
    frames_per_s=30,
)


def waits(wait_ms: int) -> Callable[[int], int]:
    """A queue in which everybody waits that long."""
    return lambda queued_at_ms: wait_ms


def new_session(*, expires_at_ms: int | None = None, **changes: Any) -> Session:
    """A machine opened at T0; `changes` replace limits."""
    limits = msgspec.structs.replace(LIMITS, **changes)
    return Session(limits, ConnectionId("c1"), T0, expires_at_ms)


def frame(seq: int, attempt: int = 1, kind: str = "delta", turn: TurnId = TURN) -> bytes:
    """A worker's frame; only the fields that decide where it goes."""
    name = f"chat.response.{kind}"
    return json.dumps({"type": name, "turn_id": turn, "attempt": attempt, "seq": seq}).encode()


def done(seq: int, attempt: int = 1, turn: TurnId = TURN) -> bytes:
    """The terminal frame of a turn that went well."""
    return frame(seq, attempt, "completed", turn)


def ask_resume(session: Session, after_seq: int = -1, attempt: int | None = None) -> list[Action]:
    """The client resumes the turn."""
    text = {"type": "chat.resume", "turn_id": TURN, "after_seq": after_seq, "attempt": attempt}
    return session.receive_text(json.dumps(text), T0)


def accept(session: Session, at_ms: int = T0, **changes: Any) -> list[Action]:
    """The client sends a message and it is accepted."""
    assert session.receive_text(SEND, T0) == [AskSend(ChatSend(message_id=MESSAGE, text="hello"))]
    answer = Accepted(message_id=MESSAGE, turn_id=TURN, path="inline")
    return session.answered(msgspec.structs.replace(answer, **changes), at_ms)


def replayed(frames: tuple[bytes, ...] = (), **changes: Any) -> Replayed:
    """What the log holds of the turn."""
    answer = Replayed(
        turn_id=TURN, purpose="resume", attempt=1, from_seq=0, frames=frames, complete=False
    )
    return msgspec.structs.replace(answer, **changes)


def written(actions: list[Action]) -> list[Any]:
    """The decoded frames of actions that are all writes."""
    assert all(isinstance(action, Write) for action in actions), actions
    return [json.loads(action.data) for action in actions if isinstance(action, Write)]


def types(actions: list[Action]) -> list[str]:
    """Their types, without the common prefix."""
    return [one["type"].removeprefix("chat.") for one in written(actions)]
