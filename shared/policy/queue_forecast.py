"""How fast burst takes up what waits there, learned from the queue's own counters, and what that means for one turn.

The counters give both: how many ever entered, and how many wait; the difference has left. While enough wait to keep
burst busy, what leaves per second *is* its throughput, cold starts, batches and the model's budget included. Without
such a time there is only the expectation, capacity per mean turn; evidence fades, so that one returns to it. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

import msgspec

from shared.contracts.load import FleetLoad
from shared.policy.wait_estimate import mean_turn_ms

EXPECTED_FOR_S = 3.0
"""The expectation weighs as much as this many seconds of evidence."""
EVIDENCE_HALF_LIFE_S = 10.0
BUSY_SHARE = 0.25
"""Waiting turns per capacity from which burst counts as busy all the time."""
NEXT_TURNS = 6.0
"""What the next ones wait for: about half of a batch, measured with batches of ten."""
READINGS_KEPT = 120
EXTRAPOLATED_MS = 2_000
"""The counters are never older than this; what is told of a later time is told of then."""


class _Reading(msgspec.Struct, frozen=True):
    at_ms: int
    entered: int
    left: int
    waiting: int


class QueueForecast:
    """One reader's view; times are epoch ms, read about once a second."""

    def __init__(self, capacity_turns: int) -> None:
        self._capacity = max(1, capacity_turns)
        self._readings: deque[_Reading] = deque(maxlen=READINGS_KEPT)
        self._expected_per_s = 0.0
        self._left = 0.0
        self._busy_s = 0.0

    def read(self, load: FleetLoad, now_ms: int) -> None:
        """Take one more reading. One that does not follow the last (a lost Redis, a clock set back) starts anew."""
        self._expected_per_s = self._capacity * 1_000 / mean_turn_ms(load)
        entered = max(load.burst_entered, load.burst_waiting)
        left = entered - load.burst_waiting
        reading = _Reading(now_ms, entered, left, load.burst_waiting)
        last = self._readings[-1] if self._readings else None
        if last is not None and (now_ms <= last.at_ms or entered < last.entered):
            self._readings.clear()
        elif last is not None:
            self._learn(last, reading)
        self._readings.append(reading)

    @property
    def per_s(self) -> float:
        """Turns a second that burst takes up when enough wait; above 0 after the first reading."""
        return (self._expected_per_s * EXPECTED_FOR_S + self._left) / (
            EXPECTED_FOR_S + self._busy_s
        )

    def wait_ms(self, queued_at_ms: int, now_ms: int) -> int:
        """How much longer a turn that was queued at `queued_at_ms` waits, by the turns that still stand before it.

        A worker takes a batch at once and the next when all of it has ended: who is next waits for that, too.
        """
        if not self._readings:
            return 0
        ahead = self._entered_at(queued_at_ms) - self._left_at(now_ms)
        return int(max(NEXT_TURNS, ahead) * 1_000 / max(self.per_s, 0.001))

    def _learn(self, last: _Reading, reading: _Reading) -> None:
        elapsed_s = (reading.at_ms - last.at_ms) / 1_000
        kept = 0.5 ** (elapsed_s / EVIDENCE_HALF_LIFE_S)
        self._left *= kept
        self._busy_s *= kept
        if min(last.waiting, reading.waiting) >= BUSY_SHARE * self._capacity:
            self._left += max(0, reading.left - last.left)
            self._busy_s += elapsed_s

    def _entered_at(self, at_ms: int) -> float:
        after = bisect_right(self._readings, at_ms, key=lambda reading: reading.at_ms)
        if after == 0:
            return 0.0  # longer ago than anybody waits
        first = self._readings[after - 1]
        if after < len(self._readings):
            second = self._readings[after]
            share = (at_ms - first.at_ms) / (second.at_ms - first.at_ms)
            return first.entered + share * (second.entered - first.entered)
        if after < 2:
            return first.entered
        before = self._readings[after - 2]
        per_ms = (first.entered - before.entered) / (first.at_ms - before.at_ms)
        return first.entered + per_ms * min(EXTRAPOLATED_MS, at_ms - first.at_ms)

    def _left_at(self, at_ms: int) -> float:
        last = self._readings[-1]
        since_ms = max(0, min(EXTRAPOLATED_MS, at_ms - last.at_ms))
        return min(last.entered, last.left + self.per_s * since_ms / 1_000)
