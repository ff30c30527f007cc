"""Which queue a head turn belongs on when no slot takes it."""

from __future__ import annotations

from shared.contracts.turns import QueueName, TurnRequest


def queue_for(request: TurnRequest) -> QueueName:
    """`deferred` or `background` for a detached turn of lower priority, else `burst`."""
    if request.detached and request.priority == "normal":
        return "deferred"
    if request.detached and request.priority == "low":
        return "background"
    return "burst"


def has_own_queue(request: TurnRequest) -> bool:
    """True for turns that the queue_runner runs; they never go through the intake."""
    return queue_for(request) != "burst"
