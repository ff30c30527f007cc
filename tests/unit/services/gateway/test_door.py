"""What is refused at the door, seen from the use case that asks it."""

from __future__ import annotations

import msgspec
import pytest

from services.gateway.session_io import (
    Accepted,
    Refused,
)
from shared.contracts.identifiers import SessionId, TenantId
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
    world = build(turns_per_min=3)
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


async def test_tiers_are_refused_from_the_lowest_up_as_the_level_rises() -> None:
    def told(answer: Accepted | Refused) -> str:
        return answer.reason if isinstance(answer, Refused) else "taken"

    seen = {}
    for level, queued in (("normal", 0), ("mild", 6), ("moderate", 20), ("severe", 40)):
        world = build()
        await world.show_load(slots=2, running=0, queued=queued)
        assert world.watch.level.name.lower() == level
        seen[level] = [
            told(await world.send("h", priority="high")),
            told(await world.send("n", priority="normal", detached=True)),
            told(await world.send("l1", priority="low", detached=True)),
            told(await world.send("l2", priority="low", detached=True)),
        ]
    assert seen == {
        "normal": ["taken", "taken", "taken", "taken"],
        "mild": ["taken", "taken", "taken", "low_throttled"],
        "moderate": ["taken", "taken", "low_refused", "low_refused"],
        "severe": ["taken", "normal_refused", "low_refused", "low_refused"],
    }


async def test_what_an_interactive_turn_is_refused_for_the_lower_tiers_are_refused_for_too() -> (
    None
):
    world = build()
    await world.show_load(slots=1, running=1, queued=5)
    for priority in ("high", "normal", "low"):
        answer = refused(await world.send(priority, priority=priority, detached=True))
        assert answer.reason == "burst_full"


async def test_each_tenants_low_turns_are_throttled_alone() -> None:
    world = build()
    await world.show_load(slots=2, running=0, queued=6)
    other = msgspec.structs.replace(SESSION, tenant=TenantId("other"))
    accepted(await world.send("l1", priority="low", detached=True))
    accepted(await world.send("l1", priority="low", detached=True, session=other))
    assert refused(await world.send("l2", priority="low", detached=True)).code == "rate_limited"
    assert accepted(await world.send("l1", priority="low", detached=True)).duplicate
    world.clock.skip(1)
    accepted(await world.send("l2", priority="low", detached=True))


async def test_a_tenant_that_fills_the_queue_is_refused_while_others_wait_in_it() -> None:
    world = build()
    world.intake.decision = IntakeDecision(path="burst", reason="no_slots")
    other = msgspec.structs.replace(SESSION, tenant=TenantId("other"), session_id=SessionId("o"))
    await world.show_load(slots=1, running=1, queued=0)
    for number in range(3):
        flood = msgspec.structs.replace(SESSION, session_id=SessionId(f"f{number}"))
        accepted(await world.send(f"f{number}", session=flood))
    accepted(await world.send("o1", session=other))
    await world.show_load(slots=1, running=1, queued=4, mean_turn_ms=20_000)
    assert refused(await world.send("f9")).reason == "tenant_share"
    more = msgspec.structs.replace(other, session_id=SessionId("o2"))
    accepted(await world.send("o2", session=more))


@pytest.mark.parametrize("reason", ["load", "rate"])
async def test_a_refusal_costs_one_read_of_the_ledger_and_nothing_else(reason: str) -> None:
    world = build(turns_per_min=1)
    if reason == "load":
        await world.show_load(slots=1, running=1, queued=5)
    else:
        await world.send("m0")
    world.ledger.calls.clear()
    world.intake.submitted.clear()
    for number in range(3):
        refused(await world.send(f"r{number}"))
    assert world.ledger.calls == ["find_message"] * 3
    assert (world.intake.submitted, world.turn_queue.sent, world.store.items) == ([], [], {})


async def test_hints_are_spread_over_as_long_again() -> None:
    world = build()
    await world.show_load(slots=1, running=1, queued=5)
    hints = [refused(await world.send(f"m{number}")).retry_after_ms for number in range(50)]
    assert min(hints) >= 1_000
    assert max(hints) <= 2_000
    assert len(set(hints)) > 25
