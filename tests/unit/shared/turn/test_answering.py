"""The work of a claimed turn: what is tried again, how often, and what is not."""

from __future__ import annotations

import msgspec

from shared.contracts.server_frames import ResponseCompleted, ResponseFailed
from shared.contracts.turns import TurnRequest
from shared.errors import ModelOverloaded
from tests.fakes.turn_world import TurnWorld, only

BUSY = [ModelOverloaded("busy")]


async def reopened(world: TurnWorld) -> TurnRequest:
    """A turn whose three tries failed, and that somebody redrove."""
    request = await world.accept()
    result = await world.finish(world.begin(request))
    assert (result.status, result.attempt) == ("failed", 1)
    again = msgspec.structs.replace(
        request, detached=True, priority="low", connection_id=None, attempt_hint=3
    )
    await world.ledger.reopen(again, now_ms=world.clock.now_ms())
    return again


async def test_a_redriven_turn_has_all_its_tries_although_its_attempts_go_on() -> None:
    world = TurnWorld(BUSY, BUSY, BUSY, BUSY, BUSY, ["Answer"])
    async with world.running():
        again = await reopened(world)
        result = await world.finish(world.begin(again, "queue"))

    assert (result.status, result.attempt) == ("completed", 4)
    assert len(world.model.calls) == 6
    assert only(world.log(again), ResponseCompleted).attempt == 4


async def test_a_redriven_turn_fails_when_its_new_tries_are_used_up() -> None:
    world = TurnWorld(*[BUSY] * 7)
    async with world.running():
        again = await reopened(world)
        result = await world.finish(world.begin(again, "queue"))

    assert (result.status, result.code) == ("failed", "model_overloaded")
    assert len(world.model.calls) == 6
    assert only(world.log(again), ResponseFailed).retryable
