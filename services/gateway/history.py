"""Earlier turns of a session, newest first, one page at a time."""

from __future__ import annotations

import msgspec

from shared.contracts.identifiers import MessageId, SessionRef, TurnId
from shared.contracts.server_frames import ChatHistory, HistoryTurn
from shared.contracts.stored_turns import StoredTurn
from shared.ports import TurnStore

_encode = msgspec.json.Encoder().encode


class History:
    """The use case behind `chat.history` and `GET /v1/sessions/{id}/turns`."""

    def __init__(self, store: TurnStore, page_bytes: int) -> None:
        self._store = store
        self._page_bytes = page_bytes

    async def page(self, session: SessionRef, *, before: TurnId | None, limit: int) -> ChatHistory:
        """At most `limit` turns older than `before`; ends early at the page size, `more` then says so.

        Raises DependencyUnavailable.
        """
        stored = await self._store.newest(session, limit=limit, before=before)
        turns: list[HistoryTurn] = []
        left_bytes = self._page_bytes
        for entry in stored.turns:
            turn = _history_turn(entry)
            left_bytes -= len(_encode(turn)) + 1
            if left_bytes < 0 and turns:  # one turn always fits, or paging would never get past it
                return ChatHistory(turns=tuple(turns), more=True)
            turns.append(turn)
        return ChatHistory(turns=tuple(turns), more=stored.more)


def _history_turn(stored: StoredTurn) -> HistoryTurn:
    turn = HistoryTurn(
        turn_id=stored.ref.turn_id,
        message_id=MessageId(stored.message_id),
        user_text=stored.user_text,
        assistant_text=stored.assistant_text,
        stop_reason=stored.stop_reason,
        completed_at_ms=stored.completed_at_ms,
        path=stored.path,
        intent=stored.intent,
        model=stored.model,
    )
    if stored.status == "cancelled":  # the frame that ended it told no more than that
        return turn
    return msgspec.structs.replace(
        turn, usage=stored.usage, timings=stored.timings, sources=stored.sources
    )
