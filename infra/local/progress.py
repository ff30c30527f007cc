"""Tells a waiting person what is being done and how long each step took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shared.clock import Clock


class Progress:
    """One line per finished step."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Print `what` and its seconds once the block is through; a failure prints for itself."""
        started_s = self._clock.monotonic_s()
        yield
        print(f"  {what:<44}{self._clock.monotonic_s() - started_s:5.1f} s", flush=True)
