"""Server-sent events: how frames and their places in the stream are written. Pure."""

from __future__ import annotations

import re

from services.gateway.turn_view import frame_head

CONTENT_TYPE = "text/event-stream"
COMMENT = b": still here\n\n"
"""Keeps proxies from closing a stream in which nothing happens."""
_LAST_EVENT_ID = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


def encode_event(frame: bytes) -> bytes:
    """One frame as one event; `id` only for logged frames, so that a browser resumes after the last of them."""
    head = frame_head(frame)
    place = b"" if head.seq < 0 else b"id: %d.%d\n" % (head.attempt, head.seq)
    # JSON has no raw line breaks, so a frame is always one `data` line.
    return b"event: %s\n%sdata: %s\n\n" % (head.type.encode(), place, frame)


def parse_last_event_id(value: str | None) -> tuple[int | None, int]:
    """The (attempt, seq) that a reader has; (None, -1) = nothing, as for an id that is none of ours."""
    match = _LAST_EVENT_ID.fullmatch((value or "").strip())
    return (None, -1) if match is None else (int(match[1]), int(match[2]))
