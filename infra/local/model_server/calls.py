"""The record of model calls that tests read at `GET /sim/calls`; bounded in calls and in bytes."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Literal

from infra.local.model_server.scripting import Script

Ended = Literal["completed", "fault", "client_closed", "running"]

_MAX_IDS = 2_000
_MAX_CALLS_PER_ID = 200
_MAX_KEPT_BODIES = 200


@dataclass(slots=True)
class Call:
    """One model call; times are epoch milliseconds."""

    started_at_ms: int
    ended_at_ms: int | None = None
    deltas: int = 0
    ended: Ended = "running"
    body: Any = None

    def finish(self, ended: Ended, now_ms: int) -> None:
        """Record the end; the first one counts."""
        if self.ended == "running":
            self.ended = ended
            self.ended_at_ms = now_ms

    def as_json(self) -> dict[str, Any]:
        """The documented shape; `body` only when it was kept."""
        shape: dict[str, Any] = {
            "started_at_ms": self.started_at_ms,
            "ended_at_ms": self.ended_at_ms,
            "deltas": self.deltas,
            "ended": self.ended,
        }
        if self.body is not None:
            shape["body"] = self.body
        return shape


@dataclass(slots=True)
class _Entry:
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=_MAX_CALLS_PER_ID))
    failed: int = 0


class CallLog:
    """Calls by script id; the least recently used id is forgotten first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._kept: deque[Call] = deque()

    def begin(self, script_id: str, now_ms: int, body: Any = None) -> Call:
        """Note that a call started; `body` is kept for the newest calls that asked for it."""
        call = Call(started_at_ms=now_ms, body=body)
        self._entry(script_id).calls.append(call)
        if body is not None:
            self._kept.append(call)
            if len(self._kept) > _MAX_KEPT_BODIES:
                self._kept.popleft().body = None
        return call

    def take_fault(self, key: str, script: Script) -> bool:
        """Whether this call still fails; counts it when it does."""
        if script.fault is None:
            return False
        entry = self._entry(key)
        if script.times is not None and entry.failed >= script.times:
            return False
        entry.failed += 1
        return True

    def calls(self, script_id: str) -> list[dict[str, Any]]:
        """Calls of one id, oldest first; an unknown id has none."""
        entry = self._entries.get(script_id)
        return [] if entry is None else [call.as_json() for call in entry.calls]

    def _entry(self, key: str) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
            if len(self._entries) > _MAX_IDS:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(key)
        return entry
