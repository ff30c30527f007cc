"""Server-sent events, read as bytes."""

from __future__ import annotations

from shared.errors import ModelDisconnected

#: An event above this is none of a model's; the text of one token is a few bytes.
EVENT_LIMIT_BYTES = 1_048_576


class SseFraming:
    """Lines end with LF or CR LF; only `data` matters, since the events carry their own type."""

    def __init__(self) -> None:
        self._rest = b""  # an unfinished line
        self._data: bytes | None = None  # the event's data, until its blank line

    def split(self, chunk: bytes) -> list[bytes]:
        """The data of every event that `chunk` completes; raises ModelDisconnected once one is endless."""
        if len(self._rest) + len(self._data or b"") > EVENT_LIMIT_BYTES:
            raise ModelDisconnected("the model's stream is no event stream")
        lines = (self._rest + chunk if self._rest else chunk).split(b"\n")
        self._rest = lines.pop()
        found: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data = line[5:] if self._data is None else self._data + b"\n" + line[5:]
            elif self._data is not None and line in {b"", b"\r"}:
                found.append(self._data)
                self._data = None
        return found
