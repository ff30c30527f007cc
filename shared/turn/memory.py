"""What the model may know of the conversation so far."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from shared.contracts.ledger import Claimed
from shared.contracts.stored_turns import HistoryEntry, HistoryWindow, StoredTurn
from shared.ports import TurnStore
from shared.telemetry import Log

FORGET_WINDOW = b""
"""Cached when the window is not known: whoever comes next reads the store."""

_log = Log("memory")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(HistoryWindow)


@dataclass(frozen=True)
class Recall:
    """Earlier turns, oldest first; `answered` is what an earlier attempt stored for this very turn."""

    turns: tuple[HistoryEntry, ...]
    answered: StoredTurn | None


class Memory:
    """Reads the session's newest turns: from the window cached beside the claim, else from the store."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store

    async def recall(self, claimed: Claimed, *, limit: int) -> Recall:
        """Up to `limit` turns before this one. A later attempt always reads the store: the cache may be older.

        Raises DependencyUnavailable when the store cannot be asked.
        """
        if claimed.ref.attempt == 1:
            window = decode_window(claimed.history)
            if window is not None:
                return Recall(window.turns, None)
            page = await self._store.newest(claimed.request.session, limit=limit)
            own = None
        else:
            page, own = await asyncio.gather(
                self._store.newest(claimed.request.session, limit=limit),
                self._store.get(claimed.request.ref),
            )
        turn_id = claimed.request.turn_id
        answered = own or next((turn for turn in page.turns if turn.ref.turn_id == turn_id), None)
        entries = tuple(
            HistoryEntry(turn.ref.turn_id, turn.user_text, turn.assistant_text)
            for turn in reversed(page.turns)
            if turn.ref.turn_id != turn_id
        )
        return Recall(entries, answered if answered and answered.status != "marker" else None)


def encode_window(turns: tuple[HistoryEntry, ...]) -> bytes:
    """The window as it is cached beside the ledger."""
    return _encoder.encode(HistoryWindow(turns))


def decode_window(cached: bytes | None) -> HistoryWindow | None:
    """The cached window, None when there is none or another version wrote it."""
    if not cached:
        return None
    try:
        return _decoder.decode(cached)
    except msgspec.MsgspecError:
        _log.warning("history.cache_unreadable")
        return None
