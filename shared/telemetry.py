"""Logs and metrics: JSON lines on stdout, metrics as CloudWatch EMF.

A log line is an event: a fixed name and fields. The ids of the running work come from the context (`bind`), so a
caller names only what is new. Fields hold ids, counts, durations and error types, never message text, tokens or
whole events.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import TextIO

import msgspec

from shared.clock import Clock

FieldValue = str | int | float | bool | None
_FIELD_LIMIT_CHARACTERS = 2_000

_NO_IDS: Mapping[str, FieldValue] = MappingProxyType({})
_context: ContextVar[Mapping[str, FieldValue]] = ContextVar(
    "burstchat_log_context", default=_NO_IDS
)
_encoder = msgspec.json.Encoder()


@contextmanager
def bind(**ids: FieldValue) -> Iterator[None]:
    """Add ids (turn_id, session_id, connection_id, attempt …) to every event of this context and its tasks."""
    token = _context.set({**_context.get(), **ids})
    try:
        yield
    finally:
        _context.reset(token)


class Log:
    """Events of one component."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._logger = logging.getLogger(f"burstchat.{component}")

    def debug(self, event: str, **fields: FieldValue) -> None:
        """Something that helps while developing."""
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: FieldValue) -> None:
        """A lifecycle change: one line each."""
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, **fields: FieldValue) -> None:
        """Something that was survived."""
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, **fields: FieldValue) -> None:
        """Something that somebody must look at."""
        self._emit(logging.ERROR, event, fields)

    def exception(self, event: str, error: BaseException, **fields: FieldValue) -> None:
        """A bug: the error's type and its stack of places, without its values."""
        stack = describe_stack(error)
        self._emit(
            logging.ERROR, event, {**fields, "error_type": type(error).__name__, "stack": stack}
        )

    def _emit(self, level: int, event: str, fields: Mapping[str, FieldValue]) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"component": self._component, "fields": {**_context.get(), **fields}}
            self._logger.log(level, event, extra=extra)


def describe_stack(error: BaseException) -> str:
    """File, line and function of each frame, outermost first, and of each cause; no values, no messages."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < 8:
        places = " > ".join(_places(current.__traceback__))
        parts.append(f"{type(current).__name__}: {places}")
        current = current.__cause__ or current.__context__
    return " | ".join(parts)


def _places(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file_name = code.co_filename.rpartition("/")[2]
        yield f"{file_name}:{traceback.tb_lineno}:{code.co_name}"
        traceback = traceback.tb_next


class _JsonFormatter(logging.Formatter):
    def __init__(self, role: str, clock: Clock) -> None:
        super().__init__()
        self._role = role
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, FieldValue] = {
            "at_ms": self._clock.now_ms(),
            "level": record.levelname.lower(),
            "role": self._role,
            "component": getattr(record, "component", record.name),
            "event": record.getMessage()[:_FIELD_LIMIT_CHARACTERS],
        }
        for name, value in getattr(record, "fields", {}).items():
            if name in line:
                name = f"field_{name}"  # the columns of every line keep their meaning
            line[name] = value[:_FIELD_LIMIT_CHARACTERS] if isinstance(value, str) else value
        if record.exc_info and record.exc_info[1]:
            line["stack"] = describe_stack(record.exc_info[1])
        return _encoder.encode(line).decode()


def configure_logging(role: str, level: str, clock: Clock, stream: TextIO | None = None) -> None:
    """Send every log line of this process to `stream` (stdout) as JSON. Call once, in the composition root."""
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(_JsonFormatter(role, clock))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # libraries speak only when something is wrong
    logging.getLogger("burstchat").setLevel(level.upper())


class Metrics:
    """Counts and durations as EMF lines: CloudWatch makes metrics of them, everyone else reads JSON.

    Dimensions are few and bounded (role, path, code), never ids.
    """

    def __init__(
        self, namespace: str, role: str, clock: Clock, stream: TextIO | None = None
    ) -> None:
        self._namespace = namespace
        self._role = role
        self._clock = clock
        self._stream = stream or sys.stdout

    def count(self, name: str, value: float = 1, **dimensions: str) -> None:
        """Add to a counter."""
        self._emit(name, value, "Count", dimensions)

    def duration_ms(self, name: str, value: float, **dimensions: str) -> None:
        """Record a duration in milliseconds."""
        self._emit(name, value, "Milliseconds", dimensions)

    def gauge(self, name: str, value: float, *, is_fine: bool = False, **dimensions: str) -> None:
        """Record the present value of something; `is_fine` keeps its seconds apart, for alarms within a minute."""
        self._emit(name, value, "None", dimensions, is_fine=is_fine)

    def _emit(
        self,
        name: str,
        value: float,
        unit: str,
        dimensions: Mapping[str, str],
        is_fine: bool = False,
    ) -> None:
        names = ["Role", *(_pascal(key) for key in dimensions)]
        metric: dict[str, str | int] = {"Name": name, "Unit": unit}
        if is_fine:
            metric["StorageResolution"] = 1
        line = {
            "_aws": {
                "Timestamp": self._clock.now_ms(),
                "CloudWatchMetrics": [
                    {
                        "Namespace": self._namespace,
                        "Dimensions": [names],
                        "Metrics": [metric],
                    }
                ],
            },
            "Role": self._role,
            **{_pascal(key): text for key, text in dimensions.items()},
            name: value,
        }
        self._stream.write(_encoder.encode(line).decode() + "\n")


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
