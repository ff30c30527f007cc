"""An event loop whose time is virtual and whose processes can be stopped: real asyncio code, the same run every time.

Time jumps to the next timer when nothing is ready. Every callback belongs to the process whose context it carries, so
that a killed process (SIGKILL) simply never runs again, and a frozen one (SIGSTOP) runs later what came meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

START_MS = 1_700_000_000_000


class Gate:
    """Whether the callbacks of a process run. `parked` holds those that came while it was frozen."""

    __slots__ = ("is_dead", "is_frozen", "name", "parked")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.parked: list[asyncio.Handle] = []


GATE: contextvars.ContextVar[Gate | None] = contextvars.ContextVar("gate", default=None)


class Stuck(Exception):
    """Nothing is ready and no timer is set."""


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """A task whose place in a set does not depend on its address."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Task:
        task = super().__new__(cls)
        task.number = next(_numbers)
        return task

    def __hash__(self) -> int:
        return self.number


_numbers = itertools.count(1)


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order of their times. Opens no selector, no socket and no thread."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self.steps = 0
        self.failures: list[dict[str, Any]] = []
        self.set_task_factory(lambda loop, coro, **options: _Task(coro, loop=loop, **options))
        self.set_exception_handler(lambda _, failure: self.failures.append(failure))

    def time(self) -> float:
        return self._now_s

    def thaw(self, gate: Gate) -> None:
        """Let a frozen process go on."""
        gate.is_frozen = False
        self._ready.extend(gate.parked)
        gate.parked.clear()

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            gate = handle._context.get(GATE)
            if gate is not None and (gate.is_dead or gate.is_frozen):
                if not gate.is_dead:
                    gate.parked.append(handle)
                continue
            self.steps += 1
            handle._run()

    def _jump(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
        if not scheduled:
            raise Stuck
        self._now_s = max(self._now_s, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now_s:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake this one."""


class SimClock:
    """The clock of one process: virtual time, its wall clock off by `skew_ms`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(0.0, duration_s))


def run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing, as the in-memory twins of the ports do."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("an in-memory service waited")


class Process:
    """A group of tasks that lives, stands still and dies together. One object per incarnation."""

    def __init__(self, loop: VirtualLoop, name: str, skew_ms: int = 0) -> None:
        self.loop = loop
        self.name = name
        self.gate = Gate(name)
        self.clock = SimClock(loop, skew_ms)
        self.context = contextvars.copy_context()
        self.context.run(GATE.set, self.gate)
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_death: list[Callable[[], None]] = []
        self.started_at_s = loop.time()
        self.stood_still: list[tuple[float, float]] = []
        self._frozen_at_s = 0.0

    @property
    def is_alive(self) -> bool:
        return not self.gate.is_dead

    @property
    def is_running(self) -> bool:
        return not (self.gate.is_dead or self.gate.is_frozen)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as part of the process."""
        task = self.loop.create_task(work, context=self.context)
        self.tasks.append(task)
        return task

    def call(self, callback: Callable[..., Any], *args: Any, after_s: float = 0) -> None:
        """Run a callback inside the process, when it runs."""
        self.loop.call_later(after_s, callback, *args, context=self.context)

    def kill(self) -> None:
        """SIGKILL."""
        if self.gate.is_dead:
            return
        self.gate.is_dead = True
        self.gate.parked.clear()
        for callback in self.on_death:
            callback()

    def freeze(self) -> None:
        """SIGSTOP."""
        if self.is_running:
            self._frozen_at_s = self.loop.time()
            self.gate.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        if self.gate.is_frozen and not self.gate.is_dead:
            self.stood_still.append((self._frozen_at_s, self.loop.time()))
            self.loop.thaw(self.gate)
