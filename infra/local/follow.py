"""One stream of all logs, a colour for each role."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COLOURS = {
    "gateway": 36,
    "orchestrator": 32,
    "queue_runner": 33,
    "burst_worker": 35,
    "aws_emulator": 90,
    "model_server": 34,
    "valkey": 31,
}
_READ_AT_ONCE_BYTES = 256 * 1024
_KEPT_BYTES = 64 * 1024 * 1024
# "message" and the rest of the second line are how Powertools names an event and its surroundings.
_UNSHOWN_FIELDS = frozenset(
    {"at_ms", "level", "role", "component", "event"}
    | {"message", "location", "timestamp", "service", "cold_start", "function_arn"}
    | {"function_memory_size", "function_name", "xray_trace_id"}
)
_NOISE = (
    "Memory overcommit must be enabled",
    "[kms] cryptography package not installed",
    # Between the creation of the triggers and deploy's mending of them.
    "ESM SQS poller error: '>=' not supported",
)


def render(role: str, line: str) -> str | None:
    """One log line for a person, None when it is noise.

    Our JSON events become `event key=value`; metric lines are left out. Of the emulator only what its
    functions wrote, and its warnings, are shown.
    """
    if line.startswith("{"):
        return _render_json(line)
    if any(noise in line for noise in _NOISE):
        return None
    if role == "aws_emulator" and not any(
        word in line for word in ("WARNING", "ERROR", "CRITICAL")
    ):
        return None
    return line


def _render_json(line: str) -> str | None:
    try:
        event = json.loads(line)
    except ValueError:
        return line
    if "_aws" in event:
        return None
    name = event.get("event", event.get("message"))
    if name is None:
        return line
    level = str(event.get("level", "info")).upper()
    mark = "" if level == "INFO" else f"{level} "
    parts = [f"{mark}{name}"]
    parts += [f"{k}={_short(v)}" for k, v in event.items() if k not in _UNSHOWN_FIELDS]
    return " ".join(parts)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"


@dataclass(slots=True)
class _Followed:
    role: str
    label: str
    path: Path
    offset: int = 0
    rest: bytes = b""


class LogFollower:
    """Prints what was added to the log files since the last `step`; keeps each file below 64 MiB."""

    def __init__(self, *, prints: bool, has_colours: bool) -> None:
        self._prints = prints
        self._has_colours = has_colours
        self._files: list[_Followed] = []

    def add(self, role: str, label: str, path: Path) -> None:
        """Follow one more file from its beginning."""
        self._files.append(_Followed(role, label, path))

    def step(self) -> None:
        """Print new lines once; never waits."""
        for followed in self._files:
            for line in self._new_lines(followed):
                rendered = render(followed.role, line) if self._prints else None
                if rendered:
                    print(self._prefixed(followed, line, rendered), flush=True)

    def _new_lines(self, followed: _Followed) -> list[str]:
        try:
            size = followed.path.stat().st_size
        except FileNotFoundError:
            return []
        if size < followed.offset:
            followed.offset = 0
        if size == followed.offset:
            return []
        with followed.path.open("rb") as log:
            log.seek(followed.offset)
            added = log.read(_READ_AT_ONCE_BYTES)
        followed.offset += len(added)
        if followed.offset > _KEPT_BYTES:
            os.truncate(followed.path, 0)
            followed.offset = 0
        *lines, followed.rest = (followed.rest + added).split(b"\n")
        return [line.decode(errors="replace").rstrip() for line in lines]

    def _prefixed(self, followed: _Followed, line: str, rendered: str) -> str:
        is_function = followed.role == "aws_emulator" and line.startswith("{")
        role = "burst_worker" if is_function else followed.role
        label = "functions" if is_function else followed.label
        prefix = f"{label:<15}│"
        if self._has_colours:
            prefix = f"\x1b[{_COLOURS.get(role, 37)}m{prefix}\x1b[0m"
        return f"{prefix} {rendered}"
