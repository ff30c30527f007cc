"""What is kept of a turn: question and answer in one item, so history never has an orphan."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.identifiers import TurnRef
from shared.contracts.server_frames import CancelledBy, SourceLink, Timings, Usage


class StoredTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An ended turn. `nonce` recognises the writer's own write after an ambiguous failure; times in epoch ms.

    `path` is where its answer was made, empty in items that older versions wrote.
    `status` `marker` records an end without an answer; markers are not history. `cancelled_by` is who stopped a
    `cancelled` turn, None for others.
    """

    ref: TurnRef
    message_id: str
    attempt: int
    nonce: str
    status: Literal["completed", "cancelled", "marker"]
    user_text: str
    assistant_text: str
    stop_reason: str
    intent: str
    model: str
    usage: Usage
    timings: Timings
    sources: tuple[SourceLink, ...]
    accepted_at_ms: int
    completed_at_ms: int
    cancelled_by: CancelledBy | None = None
    path: str = ""


class StoredPage(msgspec.Struct, frozen=True):
    """Turns newest first; `more` = older ones exist."""

    turns: tuple[StoredTurn, ...]
    more: bool


class HistoryEntry(msgspec.Struct, frozen=True, array_like=True):
    """Question and answer of one stored turn, as the prompt needs them."""

    turn_id: str
    user_text: str
    assistant_text: str


class HistoryWindow(msgspec.Struct, frozen=True):
    """The newest turns of a session, oldest first, as cached beside the ledger."""

    turns: tuple[HistoryEntry, ...]
