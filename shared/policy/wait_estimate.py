"""How long a turn put on the burst queue now will wait for a worker."""

from __future__ import annotations

from shared.contracts.load import FleetLoad

UNMEASURED_TURN_MS = 5_000.0
"""Taken for the mean turn while nobody has finished one: 100 tokens at 50 tokens/s with their overhead."""
STALLED_MS = 20_000
"""Older turns than this count by their age; younger ones only tell what the queue was like before it drained."""


def mean_turn_ms(load: FleetLoad) -> float:
    """The fleet's mean turn, weighted by the slots of the workers that have measured one."""
    measured = [sample for sample in load.samples if sample.mean_turn_ms > 0 and sample.slots > 0]
    slots = sum(sample.slots for sample in measured)
    if slots == 0:
        return UNMEASURED_TURN_MS
    return sum(sample.mean_turn_ms * sample.slots for sample in measured) / slots


def model_wait_ms(load: FleetLoad) -> float:
    """How long an interactive turn would wait for the model budget, by whoever knows most of it; 0 = not at all."""
    return max((sample.model_wait_ms for sample in load.samples), default=0.0)


def estimate_wait_ms(load: FleetLoad, burst_capacity_turns: int) -> int:
    """Predicted wait in ms behind everything that waits in burst already, 0 when nobody waits.

    Only the burst path drains its queue, so inline slots do not count. By the measured throughput, or the capacity
    while there is none. A queue whose old turns have waited for longer than that is slower than anybody knows yet.
    """
    waiting = max(0, load.burst_waiting)
    if not waiting:
        return 0
    capacity_per_s = max(1, burst_capacity_turns) * 1_000 / mean_turn_ms(load)
    behind_ms = int(waiting * 1_000 / (load.burst_per_s or capacity_per_s))
    return max(behind_ms, load.burst_oldest_ms if load.burst_oldest_ms > STALLED_MS else 0)
