"""Cutting reply text into delta frames that every transport takes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shared.contracts.server_frames import DELTA_FRAME_LIMIT_BYTES

#: Room for everything in a delta frame but its text: type, seq, attempt and a turn id of 64 + 27 characters.
ENVELOPE_BYTES = 256
TEXT_LIMIT_BYTES = DELTA_FRAME_LIMIT_BYTES - ENVELOPE_BYTES
_WORST_BYTES_PER_CHARACTER = 6  # a control character becomes \u00XX
_SAFE_CHARACTERS = TEXT_LIMIT_BYTES // _WORST_BYTES_PER_CHARACTER

_encode = msgspec.json.Encoder().encode


def cut_text(text: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> Iterator[str]:
    """Pieces of at most `limit_bytes` each, measured as JSON (escapes included), cut between characters.

    The pieces joined are `text`; an empty text has none. Always the same cut for the same text.
    `limit_bytes` >= 6, so that every character fits.
    """
    if len(text) <= min(_SAFE_CHARACTERS, limit_bytes // _WORST_BYTES_PER_CHARACTER):
        if text:
            yield text
        return
    start = 0
    size = 0
    for position, character in enumerate(text):
        cost = _json_bytes(character)
        if size + cost > limit_bytes:
            yield text[start:position]
            start, size = position, 0
        size += cost
    yield text[start:]


def _json_bytes(character: str) -> int:
    return len(_encode(character)) - 2
