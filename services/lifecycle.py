"""How a service process lives: its parts run together, drain together, and stop in order.

A composition root opens its ports, lists its parts in the order of their start and gives one `drain` that reads top
to bottom. The first SIGTERM or SIGINT starts the drain while every part keeps running (a server that drains must go
on answering); when it is done, or its limit is over, the parts stop in reverse order. A second signal skips the
rest of the drain. A part that crashes, or ends by itself, has the same effect as the first signal, and the process
ends with an error so that its supervisor starts it anew.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

import uvloop

from shared.errors import ConfigurationError
from shared.telemetry import Log

EXIT_CONFIGURATION = 78  # EX_CONFIG of sysexits.h: a supervisor should not try again
EXIT_CRASH = 1
PART_STOP_LIMIT_S = 10.0

_log = Log("lifecycle")


class Part(Protocol):
    """Something that runs as long as the process."""

    @property
    def name(self) -> str:
        """For the logs."""
        ...

    async def run(self) -> None:
        """Run until cancelled; cancelling is how it is stopped, and it cleans up within PART_STOP_LIMIT_S."""
        ...


class PartStopped(Exception):
    """A part returned although nobody had asked it to."""


class StopSignals:
    """The wishes of whoever runs the process: first to drain, then to be gone."""

    def __init__(self) -> None:
        self.drain_asked = asyncio.Event()
        self.exit_asked = asyncio.Event()

    def install(self) -> None:
        """Receive SIGTERM and SIGINT of this process. Call on the running loop, in the main thread."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.receive)

    def receive(self) -> None:
        """Count one signal."""
        (self.exit_asked if self.drain_asked.is_set() else self.drain_asked).set()


async def run_parts(
    parts: Sequence[Part],
    *,
    drain: Callable[[], Awaitable[None]],
    drain_limit_s: float,
    signals: StopSignals,
) -> None:
    """Run the parts until a signal or a crash, then drain and stop them in reverse order.

    Raises the crashed part's error, or PartStopped. Cancelling stops the parts without a drain.
    """
    tasks = [asyncio.create_task(part.run(), name=part.name) for part in parts]
    asked = asyncio.create_task(signals.drain_asked.wait())
    try:
        await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = next((task for task in tasks if task.done()), None)
        if ended is not None:
            _log.error("part.ended", part=ended.get_name(), error_type=_error_type(ended))
        await _drain_within(drain, drain_limit_s, signals)
    finally:
        asked.cancel()
        for task in reversed(tasks):
            await _stop(task)
    if ended is not None:
        ended.result()
        raise PartStopped(ended.get_name())


async def _drain_within(
    drain: Callable[[], Awaitable[None]], limit_s: float, signals: StopSignals
) -> None:
    _log.info("process.draining", limit_s=limit_s)
    draining = asyncio.ensure_future(drain())
    insisted = asyncio.create_task(signals.exit_asked.wait())
    try:
        await asyncio.wait(
            [draining, insisted], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
        )
        if draining.done():
            draining.result()
            _log.info("process.drained")
        else:
            _log.warning("process.drain_cut", insisted=signals.exit_asked.is_set())
    except Exception as error:  # noqa: BLE001 - whatever broke, the parts still have to be stopped
        _log.exception("process.drain_failed", error)
    finally:
        insisted.cancel()
        draining.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await draining


async def _stop(task: asyncio.Task[None]) -> None:
    running = not task.done()
    task.cancel()
    await asyncio.wait([task], timeout=PART_STOP_LIMIT_S)
    if not task.done():
        _log.error("part.stuck", part=task.get_name())
    elif running and not task.cancelled() and (error := task.exception()) is not None:
        _log.exception("part.stop_failed", error, part=task.get_name())


def _error_type(task: asyncio.Task[None]) -> str:
    error = None if task.cancelled() else task.exception()
    return type(error).__name__ if error is not None else ""


def run_process(main: Callable[[], Coroutine[None, None, None]]) -> NoReturn:
    """Run `main` on a fresh uvloop and exit: 0 after an ordered stop, 78 for settings, 1 for a crash."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    except ConfigurationError as error:
        exit_with_configuration_error(error)
    except Exception as error:  # noqa: BLE001 - the last place that can still write it down
        _log.exception("process.crashed", error)
        sys.exit(EXIT_CRASH)
    sys.exit(0)


def exit_with_configuration_error(error: ConfigurationError) -> NoReturn:
    """Say on one line of stderr what is wrong, and exit with 78."""
    sys.stderr.write(f"cannot start: {' '.join(str(error).split())}\n")
    sys.exit(EXIT_CONFIGURATION)
