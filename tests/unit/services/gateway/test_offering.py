"""Where a head turn goes: the intake, else burst, else nowhere."""

from __future__ import annotations

import pytest

from services.gateway.offering import FAULT_LASTS_S
from services.gateway.session_io import (
    Stopped,
)
from shared.contracts.identifiers import (
    MessageId,
    TurnId,
)
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError, ConfigurationError, DependencyUnavailable
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
    await world.show_load(slots=100, running=1, queued=5)
    assert refused(await world.send()).code == "overloaded"
    assert world.turn_queue.sent == []


@pytest.mark.parametrize("error", [ConfigurationError("forbidden"), DependencyUnavailable("away")])
async def test_a_mark_that_fails_does_not_undo_the_queued_turn(error: ChatError) -> None:
    world = build()
    world.intake.unavailable = True

    async def away(*_: object) -> None:
        raise error

    world.ledger.mark_placed = away  # type: ignore[assignment, method-assign]
    assert accepted(await world.send()).path == "burst"


@pytest.mark.parametrize("obstacle", ["unavailable", "refused", "shed"])
async def test_a_next_head_that_nobody_takes_is_left_to_the_sweeper(obstacle: str) -> None:
    world = build()
    first = accepted(await world.send("m1"))
    await world.send("m2")
    if obstacle == "unavailable":
        world.intake.unavailable = world.turn_queue.unavailable = True
    elif obstacle == "refused":
        world.intake.unavailable = world.turn_queue.refusing = True
    else:
        world.intake.decision = IntakeDecision(path=None, reason="burst_full")
    assert isinstance(await world.cancelling.cancel(SESSION, first.turn_id, MINE), Stopped)
    await world.follow_ups.settle()
    (running,) = await world.ledger.running(SESSION)
    assert running.message_id == "m2"


@pytest.mark.parametrize("fault", ["unavailable", "refusing"])
async def test_a_dispatch_that_fails_is_no_fault_of_the_finisher(fault: str) -> None:
    world = build()
    await world.send()
    (request,) = world.intake.submitted
    world.intake.unavailable = True
    setattr(world.turn_queue, fault, True)
    await world.offering.dispatch(request)
    assert world.turn_queue.sent == []


async def test_a_gateway_whose_turns_nobody_takes_says_so_until_one_is_taken() -> None:
    world = build()
    assert world.offering.fault is None
    world.intake.unavailable = world.turn_queue.refusing = True
    refused(await world.send("m1"))
    assert world.offering.fault == "neither an orchestrator nor the burst queue took a turn"
    world.turn_queue.refusing = False
    accepted(await world.send("m2"))
    assert world.offering.fault is None


async def test_a_gateway_without_new_messages_does_not_stay_unready() -> None:
    world = build()
    world.intake.unavailable = world.turn_queue.unavailable = True
    refused(await world.send("m1"))
    world.clock.skip(FAULT_LASTS_S)
    assert world.offering.fault is None


async def test_a_turn_that_is_shed_is_no_fault() -> None:
    world = build()
    world.intake.decision = IntakeDecision(path=None, reason="burst_full")
    refused(await world.send("m1"))
    assert world.offering.fault is None


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
    await world.offering.dispatch(request)
    ((queue, sent, _),) = world.turn_queue.sent
    assert (queue, sent.turn_id) == ("background", request.turn_id)
