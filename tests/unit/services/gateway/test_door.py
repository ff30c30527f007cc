"""What is refused at the door, seen from the use case that asks it."""

from __future__ import annotations

import pytest

from services.gateway.session_io import (
    Accepted,
    Refused,
)
from shared.contracts.turns import IntakeDecision
from tests.fakes.use_case_world import (
    SESSION,
    accepted,
    build,
    refused,
)


async def test_the_door_refuses_what_no_slot_and_no_burst_worker_could_take() -> None:
    world = build()
    await world.show_load(slots=1, running=1, queued=5)
    answer = refused(await world.send())
    assert answer.code == "overloaded"
    assert world.ledger.calls == ["find_message"]
    assert world.intake.submitted == []


async def test_under_moderate_load_a_new_session_is_kept_short() -> None:
    world = build()
    await world.show_load(slots=2, running=0, queued=20)
    for number in range(5):
        turn = accepted(await world.send(f"m{number}"))
        await world.cancelling.cancel(SESSION, turn.turn_id, None)
    await world.follow_ups.settle()
    assert refused(await world.send("m6")).code == "session_limited"
    assert accepted(await world.send("m1")).duplicate


async def test_repeats_and_refusals_do_not_use_up_what_a_new_session_gets() -> None:
    world = build(turns_per_min=6)
    await world.show_load(slots=2, running=0, queued=20)
    accepted(await world.send("m0"))
    for _ in range(6):
        assert accepted(await world.send("m0")).duplicate
    world.intake.decision = IntakeDecision(path=None, reason="burst_full")
    world.ledger.unavailable = True
    for number in range(3):
        assert refused(await world.send(f"u{number}")).code == "unavailable"
    world.ledger.unavailable = False
    world.intake.decision = IntakeDecision(path="inline", reason="free_slot")
    await world.send("m1")
    await world.send("m2")
    for number in range(6):
        assert refused(await world.send(f"r{number}")).code == "rate_limited"
    world.clock.skip(60)
    await world.show_load(slots=2, running=0, queued=20)
    accepted(await world.send("m3"))


async def test_counters_that_are_not_fresh_refuse_nobody() -> None:
    world = build()
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(5)}
    await world.watch.refresh()
    world.board.available = False
    await world.watch.refresh()
    assert isinstance(await world.send("m1"), Refused)
    world.clock.skip(6)
    assert isinstance(await world.send("m1"), Accepted)


async def test_a_user_who_sends_too_fast_is_refused_but_never_for_a_repeat() -> None:
    world = build(turns_per_min=2)
    await world.send("m1")
    await world.send("m1")  # a repeat does not count
    await world.send("m2")
    limited = refused(await world.send("m3"))
    assert limited.code == "rate_limited"
    assert limited.retry_after_ms is not None
    assert 0 < limited.retry_after_ms <= 60_000
    assert accepted(await world.send("m2")).duplicate


@pytest.mark.parametrize("is_loaded", [True, False])
async def test_a_message_of_which_nobody_can_say_whether_it_runs_is_not_refused_for_good(
    is_loaded: bool,
) -> None:
    world = build(turns_per_min=1)
    accepted(await world.send("m1"))
    if is_loaded:
        await world.show_load(slots=1, running=1, queued=5)
    world.ledger.unavailable = True
    assert refused(await world.send("m1")).code == "unavailable"
    world.ledger.unavailable = False
    assert accepted(await world.send("m1")).duplicate
