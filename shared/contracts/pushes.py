"""What is pushed to a connection, and how our gateways take several pushes in one request (PROTOCOL §7)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

from shared.contracts.identifiers import ConnectionId

PUSH_LIMIT_BYTES: Final = 131_072
"""Of one frame, as AWS limits a post to `@connections`."""
BATCH_LIMIT_BYTES: Final = 1_048_576
"""Of the body of a batch."""
BATCH_CONTENT_TYPE: Final = "application/x-ndjson"


class PushStatus(IntEnum):
    """The Management API's answer for one connection."""

    SENT = 200
    GONE = 410
    TOO_LARGE = 413
    THROTTLED = 429


class PushFrame(msgspec.Struct, frozen=True):
    """Bytes for one connection, forwarded as one text frame."""

    connection_id: ConnectionId
    data: bytes


class BatchLine(msgspec.Struct, frozen=True):
    """A frame as one line of a batch."""

    connection_id: ConnectionId
    data: str


_encode_line = msgspec.json.Encoder().encode
_decode_lines = msgspec.json.Decoder(BatchLine).decode_lines
_encode_statuses = msgspec.json.Encoder().encode
_decode_statuses = msgspec.json.Decoder(list[int]).decode


def encode_line(frame: PushFrame) -> bytes:
    """The frame's line, without its end."""
    return _encode_line(BatchLine(frame.connection_id, frame.data.decode()))


def decode_batch(body: bytes) -> list[BatchLine] | None:
    """The lines of a batch in their order, None when it is none."""
    try:
        return _decode_lines(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def encode_statuses(statuses: Sequence[PushStatus]) -> bytes:
    """The answer to a batch: one status a line."""
    return _encode_statuses(statuses)


def decode_statuses(body: bytes) -> list[PushStatus] | None:
    """The statuses of a batch in the order of its lines, None when the answer is none."""
    try:
        return [PushStatus(status) for status in _decode_statuses(body)]
    except (msgspec.MsgspecError, ValueError):
        return None
