"""Who asks for what and when: a day of traffic with a flash sale, and tenants that flood. Seeded: it repeats."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from shared.contracts.turns import Priority

DAY_S = 86_400.0


@dataclass(frozen=True)
class Ask:
    """One user message: `tokens` is how long its answer wants to be."""

    at_s: float
    tenant: str
    session: str
    priority: Priority
    tokens: int


@dataclass(frozen=True)
class Stream:
    """Messages of one tenant and priority at a rate that changes with time."""

    tenant: str
    priority: Priority
    per_s: float
    shape: str = "flat"
    """`flat`, `day` (little at night, most in the evening), `night`, or `sale` (as `day`, times the sale)."""
    turns_per_session: int = 6


@dataclass(frozen=True)
class Sale:
    """`factor` times the traffic within `ramp_s`, for a while; then it fades over as long again."""

    at_s: float = 20 * 3_600
    factor: float = 10.0
    ramp_s: float = 10.0
    lasts_s: float = 900.0

    def times(self, now_s: float) -> float:
        """By what the traffic is multiplied now."""
        since_s = now_s - self.at_s
        if since_s < 0 or since_s > 2 * self.lasts_s:
            return 1.0
        climbed = min(1.0, since_s / self.ramp_s)
        faded = max(0.0, (since_s - self.lasts_s) / self.lasts_s)
        return 1.0 + (self.factor - 1.0) * climbed * (1.0 - faded)


def asks(
    streams: list[Stream], *, from_s: float, until_s: float, sale: Sale, seed: int
) -> list[Ask]:
    """Every message between two times of the day, in order."""
    found: list[Ask] = []
    for number, stream in enumerate(streams):
        found.extend(
            _of_stream(stream, from_s, until_s, sale, random.Random(seed * 1_000 + number))
        )
    return sorted(found, key=lambda ask: ask.at_s)


def _of_stream(
    stream: Stream, from_s: float, until_s: float, sale: Sale, chance: random.Random
) -> Iterator[Ask]:
    """Poisson arrivals by thinning: drawn at the highest rate, kept with the share of the present one."""
    highest = stream.per_s * (sale.factor if stream.shape == "sale" else 1.0)
    now_s, count = from_s, 0
    while highest > 0:
        now_s += chance.expovariate(highest)
        if now_s >= until_s:
            return
        if chance.random() * highest > stream.per_s * _share(stream.shape, now_s, sale):
            continue
        count += 1
        yield Ask(
            at_s=now_s,
            tenant=stream.tenant,
            session=f"{stream.tenant}-{count // stream.turns_per_session}",
            priority=stream.priority,
            tokens=min(1_024, max(20, round(chance.lognormvariate(5.0, 0.6)))),
        )


def _share(shape: str, now_s: float, sale: Sale) -> float:
    of_day = 0.55 - 0.45 * math.cos(2 * math.pi * (now_s - 4 * 3_600) / DAY_S)
    if shape == "night":
        return 1.0 if now_s % DAY_S < 5 * 3_600 else 0.1
    if shape == "day":
        return of_day
    return of_day * sale.times(now_s) if shape == "sale" else 1.0
