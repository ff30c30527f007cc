"""What a simulated day leaves behind, and the tables made of it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.contracts.turns import Priority
from shared.policy.load_level import LoadLevel
from tests.policies.demand import Ask

TIERS: tuple[Priority, ...] = ("high", "normal", "low")


@dataclass
class Served:
    """One accepted turn. Times in seconds of the day."""

    ask: Ask
    accepted_s: float
    started_s: float | None = None
    path: str = ""
    model: str = ""
    tokens: int = 0
    predicted_s: float | None = None
    has_expired: bool = False

    @property
    def wait_s(self) -> float:
        """From acceptance to start."""
        return (self.accepted_s if self.started_s is None else self.started_s) - self.accepted_s


@dataclass
class Record:
    """Everything that is told of a run."""

    chance: random.Random
    turns: list[Served] = field(default_factory=list)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    levels: list[tuple[float, LoadLevel]] = field(default_factory=list)
    inversions: int = 0
    """Interactive messages refused for load in a second in which a lower one was taken."""
    _taken_in_s: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(TIERS, -1))

    def accepted(self, ask: Ask, now_s: float, level: LoadLevel) -> Served:
        """A message became a turn."""
        served = Served(ask, now_s)
        self.turns.append(served)
        if level is LoadLevel.SEVERE:
            self._taken_in_s[ask.priority] = int(now_s)
        return served

    def take_back(self, served: Served) -> None:
        """No slot and no queue took it after all."""
        self.turns.remove(served) if self.turns[-1] is not served else self.turns.pop()

    def refused(self, ask: Ask, reason: str, now_s: float, hint_ms: int) -> None:
        """A message was refused, with a hint."""
        assert hint_ms > 0, reason
        self.refusals[ask.priority, reason] += 1
        if ask.priority == "high" and reason in ("burst_full", "burst_wait"):
            self.inversions += any(
                self._taken_in_s[lower] == int(now_s) for lower in ("normal", "low")
            )

    def started(self, served: Served, path: str, now_s: float, model: str, tokens: int) -> None:
        """A worker claimed it."""
        served.started_s, served.path, served.model, served.tokens = now_s, path, model, tokens

    def expired(self, served: Served) -> None:
        """It had waited too long."""
        served.has_expired = True

    def level_changed(self, now_s: float, level: LoadLevel) -> None:
        """The load watch saw another level."""
        self.levels.append((now_s, level))

    # what it tells -------------------------------------------------------------------------------

    def waits_s(self, priority: Priority, path: str = "", tenant: str = "") -> list[float]:
        """Waits of the started turns of a tier, on one path or all, of one tenant or all."""
        return [
            each.wait_s
            for each in self.turns
            if each.started_s is not None
            and each.ask.priority == priority
            and path in ("", each.path)
            and tenant in ("", each.ask.tenant)
        ]

    def longest_pause_s(self, priority: Priority) -> float:
        """The longest time in which turns of the tier waited and none of them started: the starvation bound."""
        events = sorted(
            moment
            for each in self.turns
            if each.ask.priority == priority and each.started_s is not None
            for moment in ((each.accepted_s, 0), (each.started_s, 1))
        )
        waiting, since_s, longest_s = 0, 0.0, 0.0
        for at_s, is_start in events:
            if is_start:
                longest_s = max(longest_s, at_s - since_s)
                waiting -= 1
                since_s = at_s
            else:
                since_s = at_s if waiting == 0 else since_s
                waiting += 1
        return longest_s

    def prediction_error(self) -> float:
        """The median share by which waits of a second and more in burst were predicted wrongly."""
        errors = [
            abs((each.predicted_s or 0.0) - each.wait_s) / each.wait_s
            for each in self.turns
            if each.path == "burst" and each.wait_s >= 1.0
        ]
        return percentile(errors, 0.5)

    def tokens(self) -> dict[str, int]:
        """Tokens of interactive answers by tenant."""
        total: defaultdict[str, int] = defaultdict(int)
        for each in self.turns:
            if each.ask.priority == "high":
                total[each.ask.tenant] += each.tokens
        return dict(total)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def jain(values: Iterable[float]) -> float:
    """Jain's index: 1 = all alike, 1/n = one has everything."""
    each = list(values)
    squares = sum(value * value for value in each)
    return sum(each) ** 2 / (len(each) * squares) if squares else 1.0
