"""Trying again what must be done, for as long as its caller has patience."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from shared.clock import Clock, Randomness
from shared.errors import DependencyUnavailable
from shared.policy.backoff import ceiling_ms
from shared.telemetry import Log

_log = Log("patience")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How to wait between tries: from `first_wait_ms`, doubled up to `longest_wait_ms`, each spread over its half."""

    work: str
    """Named in the log."""
    clock: Clock
    randomness: Randomness
    first_wait_ms: int
    longest_wait_ms: int

    async def until_done(self, work: Callable[[], Awaitable[T]], *, limit_ms: int) -> T:
        """The result of `work`, tried again while a dependency cannot be asked.

        Raises the last DependencyUnavailable when the next try would begin `limit_ms` after this call or later, every
        other error at once. `work` may have been done although it raised, so it must be safe to repeat.
        """
        give_up_s = self.clock.monotonic_s() + limit_ms / 1000
        failures = 0
        while True:
            try:
                return await work()
            except DependencyUnavailable:
                failures += 1
                longest_ms = ceiling_ms(self.first_wait_ms, failures, self.longest_wait_ms)
                wait_s = self.randomness.uniform(longest_ms / 2, longest_ms) / 1000
                if self.clock.monotonic_s() + wait_s >= give_up_s:
                    raise
                _log.warning("work.put_off", work=self.work, failures=failures)
            await self.clock.sleep(wait_s)
