"""Where a new turn goes: a slot of this task, the burst queue, or nowhere (shed).

The rule, in order: a usable free slot takes the turn unless the task is strained; what finds none overflows to burst
while burst can still answer in time; the rest is shed with a hint when to come back. Lag and CPU have hysteresis, a
free slot has none: with hysteresis on slots a task that is just full would refuse the slot that has just come free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from shared.contracts.load import FleetLoad, LoadSample
from shared.contracts.turns import IntakeDecision
from shared.policy.wait_estimate import estimate_wait_ms, model_wait_ms

DRAINING = "draining"
RETRY_AFTER_MIN_MS = 1_000
RETRY_AFTER_MAX_MS = 30_000

Strain = Literal["none", "lag", "cpu"]
"""What keeps a task from taking inline work although it has slots."""


class StrainLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Entered above the high mark, left when lag *and* CPU are below their low marks."""

    lag_high_ms: float
    lag_low_ms: float
    cpu_high_share: float
    cpu_low_share: float


class BurstLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where burst may be loaded: `waiting_turns`, and a predicted wait that still ends in an answer."""

    capacity_turns: int
    waiting_turns: int
    wait_ms: int


class SlotCount(msgspec.Struct, frozen=True):
    """The inline slots of one task and how many are taken."""

    slots: int
    running: int


def takeover_reserve(slots: int) -> int:
    """Slots kept for takeovers, so that a full task can still rescue a dead one's turns."""
    return slots // 20


def next_strain(strain: Strain, lag_ms: float, cpu_share: float, limits: StrainLimits) -> Strain:
    """The strain after one more sample. Inside the band it stays what it was, so the path does not flap."""
    if lag_ms > limits.lag_high_ms:
        return "lag"
    if cpu_share > limits.cpu_high_share:
        return "cpu"
    if lag_ms < limits.lag_low_ms and cpu_share < limits.cpu_low_share:
        return "none"
    return strain


def place(
    *,
    count: SlotCount,
    strain: Strain,
    is_draining: bool,
    is_takeover: bool,
    is_over_share: bool,
    is_queued: bool,
    is_crowding: bool,
    load: FleetLoad,
    limits: BurstLimits,
) -> IntakeDecision:
    """Inline, burst, or shed (`path` None), with the reason.

    `is_draining`: the task leaves and gives out no slot any more. `is_over_share`: the tenant holds its share of the
    slots while others wait, `is_crowding` the same of the burst queue. `is_queued`: a queue message of this turn is
    under way already. Takeovers and queued turns never overflow: the retry queue, or that message, is their other
    chance, and a second message would only be a second claim to refuse.
    """
    obstacle = (
        DRAINING if is_draining else _inline_obstacle(count, strain, is_takeover, is_over_share)
    )
    if obstacle is None:
        # A slot is no use to a turn that would wait in it until it is too old.
        spent = None if is_takeover or is_queued else _budget_refusal(load, limits)
        return spent or IntakeDecision(path="inline", reason="free_slot")
    if is_takeover or is_queued:
        return IntakeDecision(path=None, reason=obstacle, retry_after_ms=RETRY_AFTER_MIN_MS)
    refusal = burst_refusal(load, limits, is_crowding=is_crowding)
    return refusal or IntakeDecision(path="burst", reason=obstacle)


def burst_refusal(
    load: FleetLoad, limits: BurstLimits, *, is_crowding: bool = False
) -> IntakeDecision | None:
    """Why burst cannot take one turn more, None when it can.

    `burst_full`: too many wait. `burst_wait`: the predicted wait would outlive the turn. `tenant_share`: it would only
    make other tenants wait longer. `model_budget`: no worker could ask the model in time.
    """
    spent = _budget_refusal(load, limits)
    if spent is not None:
        return spent
    predicted_ms = estimate_wait_ms(load, limits.capacity_turns)
    if load.burst_waiting >= limits.waiting_turns:
        reason = "burst_full"
    elif predicted_ms >= limits.wait_ms:
        reason = "burst_wait"
    elif is_crowding:
        reason = "tenant_share"
    else:
        return None
    return IntakeDecision(path=None, reason=reason, retry_after_ms=_retry_after_ms(predicted_ms))


def _budget_refusal(load: FleetLoad, limits: BurstLimits) -> IntakeDecision | None:
    wait_ms = model_wait_ms(load)
    if wait_ms < limits.wait_ms:
        return None
    return IntakeDecision(
        path=None, reason="model_budget", retry_after_ms=_retry_after_ms(int(wait_ms))
    )


def door_refusal(
    load: FleetLoad, limits: BurstLimits, *, is_crowding: bool = False
) -> IntakeDecision | None:
    """The gateway's half of the rule: refuse at once what no task and no burst worker could take.

    None when a slot is free somewhere or burst can take it; the orchestrator then decides with its own strain.
    """
    if has_free_slot(load.samples):
        return None
    return burst_refusal(load, limits, is_crowding=is_crowding)


def has_free_slot(samples: Sequence[LoadSample]) -> bool:
    """True when some task could start a first attempt."""
    return any(sample.running < sample.slots - takeover_reserve(sample.slots) for sample in samples)


def _inline_obstacle(
    count: SlotCount, strain: Strain, is_takeover: bool, is_over_share: bool
) -> str | None:
    if count.running >= count.slots:
        return "no_slots"
    if not is_takeover and count.running >= count.slots - takeover_reserve(count.slots):
        return "takeover_reserve"
    if strain != "none":
        return strain
    if is_over_share and not is_takeover:
        return "tenant_share"
    return None


def _retry_after_ms(predicted_ms: int) -> int:
    return min(RETRY_AFTER_MAX_MS, max(RETRY_AFTER_MIN_MS, predicted_ms // 2))
