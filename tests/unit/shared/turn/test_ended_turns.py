"""One event for each ended turn, whoever ended it, and nothing private in it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts.model import ModelStopped, TextDelta
from shared.contracts.server_frames import Usage
from shared.contracts.turn_events import TurnEndedEvent, encode_event
from shared.errors import ItemTooLarge, ModelRejected
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from tests.fakes.model import Wait
from tests.fakes.turn_events import FakeTurnEvents
from tests.fakes.turn_world import SESSION, TurnWorld

SECRET = "my card is 4111 1111 1111 1111"


async def told(world: TurnWorld, text: str = "Hi", **changes: Any) -> TurnEndedEvent:
    async with world.running():
        await world.answer(text, **changes)
    [event] = world.events.noted
    return event


async def test_an_answered_turn_is_told_with_what_was_measured() -> None:
    usage = Usage(input_tokens=700, output_tokens=50)
    world = TurnWorld([Wait(0.4), [TextDelta("Grüße"), ModelStopped("end_turn", usage)]])
    event = await told(world, "Please recommend", priority="high")

    assert (event.status, event.code, event.ended_by, event.path) == (
        "completed", "", "worker", "inline",
    )  # fmt: skip
    assert (event.intent, event.model, event.stop_reason) == (
        "recommendation", "claude-test", "end_turn",
    )  # fmt: skip
    assert (event.input_tokens, event.output_tokens, event.characters) == (700, 50, 5)
    assert event.attempt == 1
    assert event.first_text_ms >= 400
    assert event.total_ms >= event.first_text_ms
    assert event.ended_at_ms == event.accepted_at_ms + event.total_ms


async def test_a_failed_turn_is_told_with_its_code() -> None:
    event = await told(TurnWorld([ModelRejected("no")]))

    assert (event.status, event.code) == ("failed", "model_rejected")
    assert (event.first_text_ms, event.input_tokens) == (0, 0)


async def test_an_answer_that_could_not_be_kept_is_told_as_failed() -> None:
    world = TurnWorld(["Hello"])

    async def refuse(_: object) -> None:
        raise ItemTooLarge("400 KB")

    world.store.put = refuse  # type: ignore[assignment,method-assign]
    event = await told(world)

    assert (event.status, event.code) == ("failed", "internal")


async def test_a_turn_too_old_to_begin_is_told() -> None:
    world = TurnWorld(["Hello"])
    async with world.running():
        request = await world.accept(detached=False)
        await world.clock.advance(46)
        await world.finish(world.begin(request))

    [event] = world.events.noted
    assert (event.status, event.ended_by, event.attempt) == ("expired", "worker", 0)
    assert event.total_ms >= 46_000


async def test_what_ends_nothing_is_not_told() -> None:
    world = TurnWorld(["Hello"])
    async with world.running():
        request = await world.accept()
        await world.finish(world.begin(request))
        await world.finish(world.begin(request))  # a second delivery

    assert len(world.events.noted) == 1


async def test_nothing_of_what_was_said_nor_who_said_it_is_in_an_event() -> None:
    world = TurnWorld([f"You said: {SECRET}"])
    event = await told(world, SECRET, metadata={"page": SECRET})

    line = encode_event(event)
    assert line.endswith(b"}\n")
    for private in (SECRET, "4111", SESSION.user, SESSION.session_id + ".", "You said"):
        assert private.encode() not in line
    assert event.session == SESSION.slot_tag
    assert len(event.user) == 26
    assert len(event.turn) == 26


@pytest.mark.parametrize("key", ["key", "another", ""])
async def test_a_user_is_named_by_a_keyed_hash_or_not_at_all(key: str) -> None:
    world = TurnWorld()
    events = FakeTurnEvents()
    ended = EndedTurns(events, user_key=key)
    request = await world.accept()
    for _ in range(2):
        ended.unclaimed(request.ref, "rejected", by="gateway", now_ms=1, code="overloaded")

    first, second = events.noted
    assert first.user == second.user
    assert bool(first.user) == bool(key)
    assert (first.user == (await told(TurnWorld())).user) == (key == "key")


async def test_who_knows_only_the_turn_tells_as_much() -> None:
    world = TurnWorld()
    events = FakeTurnEvents()
    request = await world.accept()
    EndedTurns(events).unclaimed(request.ref, "cancelled", by="gateway", now_ms=9, code="user")

    [event] = events.noted
    assert (event.status, event.code, event.ended_by) == ("cancelled", "user", "gateway")
    assert (event.priority, event.total_ms, event.ended_at_ms) == ("", 0, 9)


async def test_without_analytics_nobody_is_told() -> None:
    world = TurnWorld()
    world.engine.pipeline._ended = NOBODY_TOLD
    async with world.running():
        await world.answer()
    request = await world.accept()
    NOBODY_TOLD.unclaimed(request.ref, "cancelled", by="gateway", now_ms=9)

    assert world.events.noted == []
