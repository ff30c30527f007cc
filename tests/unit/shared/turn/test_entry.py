"""Before the work: turns that are too old, that nobody reads, or that somebody else has."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseExpired,
)
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_world import TurnWorld, follower, only


async def test_a_second_delivery_is_refused_while_the_first_runs_and_after_its_end() -> None:
    world = TurnWorld(["Half", Wait(1), "Rest"])
    async with world.running():
        request = await world.accept("Hi")
        first = world.begin(request)
        await settle()
        assert (await world.finish(world.begin(request))).outcome == "refused"
        await world.finish(first)
        assert (await world.finish(world.begin(request))).outcome == "refused"

    assert len(world.model.calls) == 1


async def test_a_stale_turn_expires_in_words_and_frees_its_session() -> None:
    world = TurnWorld(["Two"])
    async with world.running():
        old = await world.accept("old")
        await world.accept("next")
        await world.clock.advance(46)
        result = await world.finish(world.begin(old))
        await settle()

    assert (result.outcome, result.status) == ("ended", "expired")
    end = only(world.frames(), ResponseExpired)
    assert (end.attempt, end.seq, end.age_ms) == (0, 0, 46_000)
    assert [head.text for head in world.dispatcher.dispatched] == ["next"]
    assert not world.model.calls


async def test_a_stale_message_of_a_turn_that_was_claimed_is_taken_over() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.ledger.claim(
            request,
            nonce=ClaimNonce("dead"),
            worker="dead",
            path="inline",
            grace_ms=15_000,
            now_ms=world.clock.now_ms(),
        )
        await world.clock.advance(46)
        result = await world.finish(world.begin(request))

    assert (result.status, result.attempt) == ("completed", 2)


async def test_a_stale_message_of_an_ended_or_unknown_turn_is_refused() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.finish(world.begin(request))
        await world.clock.advance(46)
        assert (await world.finish(world.begin(request))).outcome == "refused"
        world.ledger.forget(request.ref)
        assert (await world.finish(world.begin(request))).outcome == "refused"


async def test_a_turn_whose_readers_left_before_the_claim_ends_without_a_model_call() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept("Hi")
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        await world.clock.advance(16)
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.status, result.attempt) == ("ended", "cancelled", 0)
    assert not world.model.calls


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_takeover_that_nobody_reads_ends_unless_its_answer_is_stored(
    is_answered: bool,
) -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(1)
        task.cancel()
        await settle()
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        if is_answered:
            source = TurnWorld(["Whole"])
            async with source.running():
                await source.answer("Hi")
            (item,) = source.store.items.values()
            world.store.items[request.ref] = msgspec.structs.replace(item, ref=request.ref)
        await world.clock.advance(20)
        result = await world.finish(world.begin(request))

    if is_answered:
        assert result.outcome == "refused"
    else:
        assert (result.outcome, result.status, result.attempt) == ("ended", "cancelled", 1)
        end = world.log(request)[-1]
        assert isinstance(end, ResponseCancelled)
        assert (end.attempt, end.seq) == (1, 2)


async def test_run_claims_again_while_the_ledger_is_away_then_leaves_the_message() -> None:
    world = TurnWorld(["One"])
    async with world.running():
        request = await world.accept("Hi")
        world.ledger.unavailable = True
        result = await world.finish(world.begin(request))
        assert (result.outcome, result.acknowledge) == ("not_settled", False)

        task = world.begin(request)
        await world.clock.advance(1)
        world.ledger.unavailable = False
        assert (await world.finish(task)).status == "completed"


@pytest.mark.parametrize("fault", ["unavailable", "refusing"])
async def test_a_takeover_that_nobody_reads_is_left_to_the_sweeper_while_no_marker_is_taken(
    fault: str,
) -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(0.5)
        task.cancel()
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        await world.clock.advance(20)
        setattr(world.store, fault, True)
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.acknowledge) == ("refused", True)
    state = await world.ledger.state(request.ref)
    assert state is not None
    assert not state.is_ended
