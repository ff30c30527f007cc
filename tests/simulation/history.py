"""What happened in a run, in order, and which rules of the design it broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Who did what, and when (virtual seconds)."""

    at_s: float
    who: str
    what: str
    detail: str


@dataclass(frozen=True)
class Violation:
    """A broken promise: its number in DESIGN §4, and what was seen."""

    rule: str
    words: str
    at_s: float


class History:
    """The story so far. `seen` counts ledger transitions, ends and faults for the coverage table."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.events: list[Event] = []
        self.violations: list[Violation] = []
        self.seen: Counter[str] = Counter()
        self.takeovers_s: list[float] = []

    def note(self, who: str, what: str, detail: str = "") -> None:
        self.events.append(Event(self._now_s(), who, what, detail))

    def count(self, kind: str) -> None:
        self.seen[kind] += 1

    def close(self) -> None:
        """Let go of the run's clock, and with it of the whole run."""
        at_s = self._now_s()
        self._now_s = lambda: at_s

    def violate(self, rule: str, words: str) -> None:
        self.violations.append(Violation(rule, words, self._now_s()))
        self.note("CHECKER", f"{rule} broken", words)
