"""A user message becomes a turn, or is refused in words, over the in-memory ports."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.identifiers import (
    MessageId,
    SessionId,
    TurnRef,
)
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError, ConfigurationError, DependencyUnavailable
from tests.fakes.use_case_world import (
    MINE,
    SESSION,
    THEIRS,
    accepted,
    build,
    claim,
    kinds,
    refused,
)


async def test_a_head_goes_to_the_intake_as_ready_and_with_its_sender() -> None:
    world = build()
    answer = accepted(await world.send())
    (request,) = world.intake.submitted
    assert request.turn_id == answer.turn_id
    assert request.turn_id.startswith("s.")
    assert request.ready_at_ms == request.accepted_at_ms == world.clock.now_ms()
    assert (request.connection_id, request.detached) == ("mine", False)


async def test_what_waits_is_not_dispatched_and_a_full_session_is_busy() -> None:
    world = build()
    answers = [await world.send(f"m{number}") for number in range(5)]
    assert [accepted(answer).position for answer in answers[:4]] == [0, 1, 2, 3]
    assert refused(answers[4]).code == "busy"
    assert refused(answers[4]).turn_id is None
    assert len(world.intake.submitted) == 1


async def test_a_duplicate_says_where_its_turn_was_last_put() -> None:
    world = build()
    world.intake.unavailable = True
    await world.send("m1")
    await world.send("m2")
    assert accepted(await world.send("m1")).path == "burst"
    waiting = accepted(await world.send("m2"))
    assert (waiting.path, waiting.position, waiting.duplicate) == ("waiting", 1, True)


async def test_a_turn_that_the_silent_intake_runs_after_all_is_accepted() -> None:
    world = build()

    async def run_but_lose_the_answer(request: TurnRequest) -> IntakeDecision:
        await claim(world, request)
        raise DependencyUnavailable("no answer in time")

    world.intake.answering = run_but_lose_the_answer
    world.turn_queue.unavailable = True
    answer = accepted(await world.send())
    assert (answer.path, answer.duplicate) == ("inline", False)


@pytest.mark.parametrize("error", [ConfigurationError("forbidden"), DependencyUnavailable("away")])
async def test_a_head_that_neither_the_intake_nor_the_queue_takes_is_taken_back(
    error: ChatError,
) -> None:
    world = build()

    async def refuse(_: TurnRequest) -> IntakeDecision:
        raise error

    world.intake.answering = refuse
    world.turn_queue.refusing = True
    answer = refused(await world.send())
    assert (answer.code, answer.reason) == ("unavailable", "unavailable")
    assert 1_000 <= answer.retry_after_ms <= 2_000
    assert answer.turn_id is not None
    assert await world.ledger.running(SESSION) == []
    [event] = world.events.noted
    assert (event.status, event.code, event.ended_by) == ("rejected", "unavailable", "gateway")
    world.intake.answering = None
    assert accepted(await world.send()).path == "inline"


async def test_a_ledger_that_refuses_for_good_is_said_to_be_unavailable() -> None:
    world = build()

    async def forbidden(*_: object) -> None:
        raise ConfigurationError("forbidden")

    world.ledger.accept = forbidden  # type: ignore[assignment, method-assign]
    assert refused(await world.send()).code == "unavailable"


async def test_a_refusal_whose_taking_back_fails_drops_the_turn_s_frames() -> None:
    world = build()
    world.intake.unavailable = world.turn_queue.unavailable = True

    async def away(*_: object, **__: object) -> None:
        raise DependencyUnavailable("away")

    world.ledger.end_unclaimed = away  # type: ignore[assignment, method-assign]
    answer = refused(await world.send())
    assert answer.code == "unavailable"
    assert answer.turn_id is not None


async def test_others_who_wait_for_a_message_that_is_taken_back_are_told() -> None:
    world = build()

    async def shed_after_another_joined(_: TurnRequest) -> IntakeDecision:
        await world.send("m1", THEIRS)
        return IntakeDecision(path=None, reason="burst_full", retry_after_ms=1_000)

    world.intake.answering = shed_after_another_joined
    assert refused(await world.send("m1")).code == "overloaded"
    await world.follow_ups.settle()
    ((_, ids),) = world.push.requests
    assert ids == ["theirs"]
    assert b"chat.rejected" in world.push.received["theirs"][0]


async def test_a_shed_turn_tells_the_others_who_sent_it_and_dispatches_the_next() -> None:
    world = build()
    await world.send("m1")
    first = world.intake.submitted[0]
    await world.send("m2")
    await world.send("m2", THEIRS)
    await world.send("m3")
    world.intake.decision = IntakeDecision(path=None, reason="burst_full", retry_after_ms=2_000)
    await world.cancelling.cancel(SESSION, first.turn_id, None)
    await world.follow_ups.settle()
    assert kinds(world, "mine") == ["chat.response.cancelled"]
    # The shed head of another session: nobody else follows it, the hint is the intake's.
    other = msgspec.structs.replace(SESSION, session_id=SessionId("other"))
    shed = refused(await world.sending.send(other, MessageId("m1"), "hi", {}, MINE))
    assert (shed.code, shed.reason) == ("overloaded", "burst_full")
    assert 2_000 <= shed.retry_after_ms <= 4_000


async def test_a_card_number_is_gone_before_ledger_and_intake() -> None:
    world = build()
    card = "4111 1111 1111 1111"
    await world.sending.send(SESSION, MessageId("m1"), f"Pay with {card}", {"note": card}, MINE)

    (request,) = world.intake.submitted
    assert (request.text, request.metadata) == ("Pay with [card]", {"note": "[card]"})
    known = await world.ledger.state(request.ref)
    assert known is not None
    assert known.request.text == "Pay with [card]"


async def test_a_detached_turn_of_lower_priority_waits_outside_the_session_for_its_own_queue() -> (
    None
):
    world = build()
    accepted(await world.send("m1"))
    answer = accepted(
        await world.sending.send(
            SESSION, MessageId("m2"), "hi", {}, None, priority="low", detached=True
        )
    )
    assert (answer.path, answer.position, answer.status) == ("queue", 0, "waiting")
    ((queue, request, _),) = world.turn_queue.sent
    assert (queue, request.turn_id, request.reason) == ("background", answer.turn_id, "detached")
    assert request.limit_at_ms == request.accepted_at_ms + 86_400_000
    assert len(world.intake.submitted) == 1


async def test_a_detached_turn_whose_queue_is_away_is_accepted_and_left_to_the_sweeper() -> None:
    world = build()
    world.turn_queue.unavailable = True
    answer = accepted(
        await world.sending.send(
            SESSION, MessageId("m1"), "hi", {}, None, priority="normal", detached=True
        )
    )
    state = await world.ledger.state(TurnRef(SESSION, answer.turn_id))
    assert state is not None
    assert (state.status, state.placed, state.placed_at_ms) == ("waiting", "inline", 0)


async def test_a_message_with_personal_data_is_answered_with_what_is_kept_of_it() -> None:
    world = build()
    answer = await world.send(text="mail ana@example.com")
    assert accepted(answer).masked_text == world.intake.submitted[0].text == "mail [mail]"
    assert accepted(await world.send("m2")).masked_text == ""
