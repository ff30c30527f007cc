"""A user stops a turn, over the in-memory ports."""

from __future__ import annotations

import json

from services.gateway.session_io import (
    CouldNotAsk,
    NotFound,
    Stopped,
    Stopping,
)
from shared.contracts.identifiers import (
    TurnId,
)
from shared.errors import ConfigurationError
from tests.fakes.use_case_world import (
    MINE,
    SESSION,
    THEIRS,
    accepted,
    build,
    claim,
    fail,
    refused,
    resume,
)


async def test_a_cancel_tells_remote_followers_and_dispatches_the_next_head() -> None:
    world = build()
    first = accepted(await world.send("m1"))
    await world.send("m1", THEIRS)
    await world.send("m2")
    stopped = await world.cancelling.cancel(SESSION, first.turn_id, MINE)
    assert isinstance(stopped, Stopped)
    await world.follow_ups.settle()
    assert world.push.received["theirs"] == [stopped.outcome]
    assert "mine" not in world.push.received  # answered by its own session
    assert [request.message_id for request in world.intake.submitted] == ["m1", "m2"]
    [event] = world.events.noted
    assert (event.status, event.code, event.ended_by) == ("cancelled", "user", "gateway")


async def test_a_cancel_makes_its_sender_a_follower_of_the_claimed_turn() -> None:
    world = build()
    turn = accepted(await world.send())
    claimed = await claim(world, world.intake.submitted[0])
    assert await world.cancelling.cancel(SESSION, turn.turn_id, THEIRS) == Stopping(turn.turn_id)
    assert await world.cancelling.cancel(SESSION, turn.turn_id, None) == Stopping(turn.turn_id)
    (held,) = await world.ledger.renew_many([claimed.ref], world.clock.now_ms())
    assert THEIRS in held.followers  # type: ignore[union-attr]


async def test_a_cancel_of_an_ended_or_unknown_turn() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])
    assert await world.cancelling.cancel(SESSION, turn.turn_id, MINE) == Stopped(
        turn.turn_id, failed
    )
    for unknown in ("s.01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        assert isinstance(await world.cancelling.cancel(SESSION, TurnId(unknown), MINE), NotFound)


async def test_a_cancel_of_a_message_that_was_taken_back_is_unknown() -> None:
    world = build()
    world.intake.unavailable = world.turn_queue.unavailable = True
    turn_id = refused(await world.send()).turn_id
    assert turn_id is not None
    assert isinstance(await world.cancelling.cancel(SESSION, turn_id, MINE), NotFound)
    assert isinstance(await resume(world, turn_id), NotFound)


async def test_the_end_of_a_turn_that_nobody_claimed_is_counted_once() -> None:
    world = build()
    first, second = accepted(await world.send("m1")), accepted(await world.send("m2"))
    await claim(world, world.intake.submitted[0])
    for turn_id in (first.turn_id, second.turn_id, second.turn_id):
        await world.cancelling.cancel(SESSION, turn_id, MINE)
    lines = [json.loads(line) for line in world.metrics.getvalue().splitlines()]
    ended = [line for line in lines if "TurnEnded" in line]
    assert [(line["Status"], line["Path"], line["Code"]) for line in ended] == [
        ("cancelled", "unclaimed", "none")
    ]


async def test_a_cancel_that_is_forbidden_is_said_so_and_not_tried_again() -> None:
    world = build()
    turn = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    asked = []

    async def forbidden(*_: object) -> None:
        asked.append(1)
        raise ConfigurationError("forbidden")

    world.ledger.cancel = forbidden  # type: ignore[assignment, method-assign]
    assert await world.cancelling.cancel(SESSION, turn, MINE) == CouldNotAsk(turn, "cancel")
    assert len(asked) == 1


async def test_a_cancel_asks_an_absent_ledger_again_and_then_says_so() -> None:
    world = build()
    turn = accepted(await world.send())
    world.ledger.unavailable = True
    world.ledger.calls.clear()
    answer = await world.cancelling.cancel(SESSION, turn.turn_id, MINE)
    assert answer == CouldNotAsk(turn.turn_id, "cancel")
    assert world.ledger.calls == ["cancel"] * 3
