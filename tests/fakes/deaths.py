"""Turns that died, as letters and as triage keeps them."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.contracts.dead_letters import AttemptRecord, DeadLetter, DeadLetterError
from shared.contracts.dead_turns import DeadTurn
from shared.contracts.identifiers import MessageId, SessionId, TenantId, UserId, new_turn_id
from shared.contracts.turns import TurnRequest

NOW_MS = 1_700_000_000_000


def request(number: int = 1, *, session: str = "s1", **changes: Any) -> TurnRequest:
    """Turn `number` of a session."""
    at_ms = NOW_MS + number
    turn = TurnRequest(
        turn_id=new_turn_id(SessionId(session), at_ms, bytes(10)),
        session_id=SessionId(session),
        message_id=MessageId(f"m{number}"),
        tenant=TenantId("acme"),
        user=UserId("ana"),
        text="Where is my parcel?",
        accepted_at_ms=at_ms,
        ready_at_ms=at_ms,
    )
    return msgspec.structs.replace(turn, **changes)


def letter(turn: TurnRequest | None, *, attempt: int = 1, **changes: Any) -> DeadLetter:
    """The letter of a turn that failed for a bug at `attempt`; 0 = it never ran."""
    record = AttemptRecord(
        attempt=attempt,
        worker="worker-1",
        path="burst",
        started_at_ms=NOW_MS + 10,
        ended_at_ms=NOW_MS + 20,
        outcome="failed",
        error_type="ZeroDivisionError",
    )
    made = DeadLetter(
        turn=turn,
        klass="failed",
        error=DeadLetterError(type="ZeroDivisionError", message="bug", stack="a.py:1:f"),
        attempts=(record,) if attempt else (),
        dead_at_ms=NOW_MS + 1_000,
        fingerprint="0123456789abcdef",
    )
    return msgspec.structs.replace(made, **changes)


def death(number: int = 1, *, attempt: int = 1, **changes: Any) -> DeadTurn:
    """A dead turn as triage keeps it; `letter_…` and `turn_…` change what lies inside."""
    of_turn = {k[5:]: changes.pop(k) for k in [*changes] if k.startswith("turn_")}
    of_letter = {k[7:]: changes.pop(k) for k in [*changes] if k.startswith("letter_")}
    turn = request(number, **of_turn)
    made = DeadTurn(
        id=turn.turn_id,
        queue="burst",
        origin="letter",
        letter=letter(turn, attempt=attempt, **of_letter),
        verdict="inspect",
        reason="bug",
    )
    return msgspec.structs.replace(made, **changes)
