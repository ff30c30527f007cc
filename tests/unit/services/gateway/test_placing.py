"""Where a head turn goes: the intake, else burst, else nowhere."""

from __future__ import annotations

import pytest

from services.gateway.session_io import (
    Stopped,
)
from shared.contracts.identifiers import (
    MessageId,
    TurnId,
)
from shared.contracts.load import LoadSample
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import DependencyUnavailable
from tests.fakes.use_case_world import (
    MINE,
    SESSION,
    accepted,
    build,
    refused,
)


async def test_without_an_intake_a_full_burst_queue_sheds() -> None:
    world = build()
    world.intake.unavailable = True
    await world.board.publish(
        LoadSample(
            worker="w",
            at_ms=world.clock.now_ms(),
            slots=100,
            running=1,
            lag_ms=0,
            cpu=0,
            mean_turn_ms=1_000,
        )
    )
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(5)}
    await world.watch.refresh()
    assert refused(await world.send()).code == "overloaded"
    assert world.turn_queue.sent == []


async def test_a_mark_that_fails_does_not_undo_the_queued_turn() -> None:
    world = build()
    world.intake.unavailable = True

    async def away(*_: object) -> None:
        raise DependencyUnavailable("away")

    world.ledger.mark_placed = away  # type: ignore[assignment, method-assign]
    assert accepted(await world.send()).path == "burst"


@pytest.mark.parametrize("obstacle", ["unavailable", "shed"])
async def test_a_next_head_that_nobody_takes_is_left_to_the_sweeper(obstacle: str) -> None:
    world = build()
    first = accepted(await world.send("m1"))
    await world.send("m2")
    if obstacle == "unavailable":
        world.intake.unavailable = world.turn_queue.unavailable = True
    else:
        world.intake.decision = IntakeDecision(path=None, reason="burst_full")
    assert isinstance(await world.cancelling.cancel(SESSION, first.turn_id, MINE), Stopped)
    await world.endings.settle()
    (running,) = await world.ledger.running(SESSION)
    assert running.message_id == "m2"


async def test_a_detached_next_head_goes_to_its_own_queue() -> None:
    world = build()
    request = TurnRequest(
        turn_id=TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        session_id=SESSION.session_id,
        message_id=MessageId("d"),
        tenant=SESSION.tenant,
        user=SESSION.user,
        text="later",
        priority="low",
        detached=True,
        accepted_at_ms=1,
    )
    await world.placing.dispatch(request)
    ((queue, sent, _),) = world.turn_queue.sent
    assert (queue, sent.turn_id) == ("background", request.turn_id)
