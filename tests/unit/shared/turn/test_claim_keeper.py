"""Claims stay alive, and learn when they must stop."""

from __future__ import annotations

import asyncio
import itertools

from shared.contracts.ledger import ClaimRef, HoldAnswer
from shared.turn.live_turns import LiveTurns
from tests.fakes.model import Forever
from tests.fakes.turn_world import TurnWorld, follower


async def test_all_claims_are_renewed_in_one_pipeline_per_interval() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        requests = [await world.accept(session_id=f"s{number}") for number in range(5)]
        tasks = [world.begin(request) for request in requests]
        await world.clock.advance(0.5)
        world.ledger.calls.clear()
        await world.clock.advance(5)
        assert world.ledger.calls == ["renew_many"] * 5
        for request in requests:
            held = world.ledger._session(request.session).turns[request.turn_id]
            assert held.lease_until_ms > world.clock.now_ms()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_idle_process_asks_nothing() -> None:
    world = TurnWorld()
    async with world.running():
        await world.clock.advance(10)
        assert world.ledger.calls == []
        await world.engine.keeper.renew()
        assert world.ledger.calls == []


async def test_a_turn_goes_on_while_the_ledger_is_away() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.ledger.unavailable = True
        await world.clock.advance(10)
        assert world.model.open_calls == 1
        world.ledger.unavailable = False
        await world.clock.advance(1)
        held = world.ledger._session(request.session).turns[request.turn_id]
        assert held.lease_until_ms > world.clock.now_ms()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_slow_ledger_does_not_stretch_the_interval() -> None:
    world = TurnWorld(["Half", Forever()])
    real = world.ledger.renew_many
    asked_at_ms = []

    async def slow(claims: list[ClaimRef], now_ms: int) -> list[HoldAnswer]:
        asked_at_ms.append(now_ms)
        await world.clock.sleep(0.4)
        return list(await real(claims, now_ms))

    world.ledger.renew_many = slow  # type: ignore[method-assign,assignment]
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(6)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    gaps = [later - earlier for earlier, later in itertools.pairwise(asked_at_ms)]
    assert set(gaps) == {1_000}


async def test_an_answer_about_a_claim_that_was_replaced_meanwhile_is_ignored() -> None:
    world = TurnWorld(["Half", Forever()])
    real = world.ledger.renew_many

    async def replace_meanwhile(claims: list[ClaimRef], now_ms: int) -> list[HoldAnswer]:
        answers = list(await real(claims, now_ms))
        world.ledger.forget(request.ref)
        for writer in world.engine.keeper._live:
            await world.engine.flusher.reclaim(writer)
        return [*answers[:-1], type(answers[-1])((follower("stale"),), True, 1)]  # type: ignore[call-arg]

    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.ledger.renew_many = replace_meanwhile  # type: ignore[method-assign,assignment]
        await world.clock.advance(0.6)
        (writer,) = world.engine.keeper._live
        assert writer.claim.attempt == 2
        assert writer.stop_reason is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_live_turns_counts_and_wakes() -> None:
    live = LiveTurns()
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        task = world.begin(await world.accept())
        await world.clock.advance(0.1)
        (writer,) = world.engine.keeper._live
        waiting = asyncio.create_task(live.wait_for_some())
        await world.clock.advance(0)
        assert not waiting.done()
        live.add(writer)
        await waiting
        assert len(live) == 1
        assert writer in live
        other = object.__new__(type(writer))
        live.add(other)
        live.discard(writer)
        assert list(live) == [other]
        live.discard(other)
        assert not len(live)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
