"""The analytics event: one for each ended turn, without a word of what was said or by whom."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.turns import EndStatus

EndedBy = Literal["worker", "sweeper", "gateway", "triage"]


class TurnEndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How one turn ended; docs/analytics.md describes each field. Empty or 0 = not known, or there was none."""

    schema: int = 1
    event: Literal["turn.ended"] = "turn.ended"
    turn: str
    """The part of the turn id that holds nothing of the client's."""
    session: str
    """The session's slot tag, a hash."""
    tenant: str
    user: str = ""
    """A keyed hash, only where a key is set."""
    status: EndStatus
    code: str = ""
    ended_by: EndedBy
    path: str = ""
    attempt: int = 0
    priority: str = ""
    detached: bool = False
    intent: str = ""
    model: str = ""
    stop_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    characters: int = 0
    queued_ms: int = 0
    first_text_ms: int = 0
    total_ms: int = 0
    accepted_at_ms: int = 0
    ended_at_ms: int


_encode = msgspec.json.Encoder().encode


def encode_event(event: TurnEndedEvent) -> bytes:
    """One line of JSON with its line feed, so that records written one behind the other stay apart."""
    return _encode(event) + b"\n"
