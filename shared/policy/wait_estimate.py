"""How long a turn put on the burst queue now will wait for a worker."""

from __future__ import annotations

from shared.contracts.load import FleetLoad

UNMEASURED_TURN_MS = 5_000.0
"""Taken for the mean turn while nobody has finished one: 100 tokens at 50 tokens/s with their overhead."""


def mean_turn_ms(load: FleetLoad) -> float:
    """The fleet's mean turn, weighted by the slots of the workers that have measured one."""
    measured = [sample for sample in load.samples if sample.mean_turn_ms > 0 and sample.slots > 0]
    slots = sum(sample.slots for sample in measured)
    if slots == 0:
        return UNMEASURED_TURN_MS
    return sum(sample.mean_turn_ms * sample.slots for sample in measured) / slots


def estimate_wait_ms(load: FleetLoad, burst_capacity_turns: int) -> int:
    """Predicted wait in ms behind everything that waits in burst already.

    Only the burst path drains its queue, so inline slots do not count. 0 when nobody waits. The age of the oldest
    turn is left out on purpose: one lost message must not look like a long queue.
    """
    capacity = max(1, burst_capacity_turns)
    return int(max(0, load.burst_waiting) * mean_turn_ms(load) / capacity)
