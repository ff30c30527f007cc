"""One tick, one pipeline; only what was appended is pushed."""

from __future__ import annotations

import asyncio

import pytest

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import Claimed
from shared.contracts.server_frames import ResponseCompleted, ResponseDelta
from shared.contracts.turns import TurnRequest
from shared.turn.writer import Stop, TurnWriter
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_world import GATEWAY, SESSION, TurnWorld, follower, only, shown_text


async def open_writer(world: TurnWorld, request: TurnRequest, nonce: str = "n") -> TurnWriter:
    claimed = await world.ledger.claim(
        request,
        nonce=ClaimNonce(nonce),
        worker="w",
        path="inline",
        grace_ms=15_000,
        now_ms=world.clock.now_ms(),
    )
    assert isinstance(claimed, Claimed)
    world.ledger.calls.clear()
    return world.engine.flusher.open(claimed, "inline")


@pytest.mark.case("B-38")
async def test_the_turns_of_a_process_share_one_pipeline_per_tick() -> None:
    script = [step for _ in range(20) for step in (Wait(0.1), "word ")]
    world = TurnWorld(script)
    async with world.running():
        tasks = []
        for number in range(10):
            request = await world.accept("Hi", session_id=f"s{number}")
            tasks.append(world.begin(request))
        await world.clock.advance(0.15)
        world.ledger.calls.clear()
        await world.clock.advance(1)
        calls = list(world.ledger.calls)
        for task in tasks:
            await world.finish(task)

    assert calls.count("append_many") <= 10
    assert calls.count("renew_many") == 1


async def test_started_and_first_text_do_not_wait_for_the_tick() -> None:
    world = TurnWorld()
    async with world.running():
        writer = await open_writer(world, await world.accept())
        await world.clock.advance(0.001)
        writer.start("inline", "general", "m")
        await settle()
        assert len(world.frames()) == 1
        writer.write("first")
        await settle()
        assert shown_text(world.frames()) == "first"
        writer.write(" second")
        await settle()
        assert shown_text(world.frames()) == "first"
        await world.clock.advance(0.04)
        assert shown_text(world.frames()) == "first second"


async def test_a_frozen_frame_never_changes_however_often_it_is_appended() -> None:
    world = TurnWorld()
    async with world.running():
        writer = await open_writer(world, await world.accept())
        world.ledger.unavailable = True
        writer.start("inline", "general", "m")
        writer.write("one")
        await settle()
        first = writer.unlogged().frames
        writer.write(" two")
        await world.clock.advance(3)
        assert writer.unlogged().frames == first
        assert not world.frames()
        world.ledger.unavailable = False
        await world.clock.advance(2)

    assert shown_text(world.frames()) == "one two"
    assert [frame.seq for frame in world.frames()] == [0, 1, 2]


@pytest.mark.case("B-08")
async def test_a_gap_in_the_log_is_filled_from_memory_and_pushed_once() -> None:
    world = TurnWorld()
    async with world.running():
        request = await world.accept()
        writer = await open_writer(world, request)
        writer.start("inline", "general", "m")
        writer.write("one")
        await settle()
        held = world.ledger._session(request.session).turns[request.turn_id]
        del held.log[1:]
        held.last_seq = 0
        writer.write(" two")
        await world.clock.advance(0.1)

    assert shown_text(world.log(request)) == "one two"
    assert shown_text(world.frames()) == "one two"


async def test_a_gap_found_by_the_last_append_is_filled_too() -> None:
    world = TurnWorld(["one", Wait(0.05), " two", Wait(0.5), " three"])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.52)
        held = world.ledger._session(request.session).turns[request.turn_id]
        del held.log[1:]
        held.last_seq = 0
        await world.finish(task)

    assert shown_text(world.log(request)) == "one two three"
    assert only(world.log(request), ResponseCompleted).length == 13


async def test_one_turns_bad_answer_does_not_touch_the_others() -> None:
    world = TurnWorld()
    async with world.running():
        bad = await open_writer(world, await world.accept())
        good = await open_writer(world, await world.accept(session_id="s2", reader=follower("c2")))
        world.ledger._session(SESSION).turns[bad.request.turn_id].nonce = "somebody else"
        for writer in (bad, good):
            writer.start("inline", "general", "m")
            writer.write("text")
        await settle()

    assert bad.stop_reason is Stop.FENCED
    assert not world.frames("c1")
    assert shown_text(world.frames("c2")) == "text"
    assert good.stop_reason is None


async def test_a_turn_that_nobody_reads_now_is_still_logged_but_rarely() -> None:
    world = TurnWorld([step for _ in range(100) for step in (Wait(0.02), "w")])
    async with world.running():
        request = await world.accept(detached=True)
        await world.finish(world.begin(request))

    deltas = [frame for frame in world.log(request) if isinstance(frame, ResponseDelta)]
    assert len(deltas) <= 7
    assert shown_text(world.log(request)) == "w" * 100


@pytest.mark.case("B-19")
async def test_a_slow_reader_does_not_thin_the_frames_of_another() -> None:
    world = TurnWorld([step for _ in range(100) for step in (Wait(0.02), "w")])
    world.push.latency_s["http://slow"] = 1.5
    async with world.running():
        request = await world.accept()
        await world.ledger.follow(
            request.ref,
            follower("slow", "http://slow"),
            attempt=None,
            after_seq=-1,
            now_ms=world.clock.now_ms(),
        )
        await world.finish(world.begin(request))
        await world.clock.advance(5)

    assert len(world.frames("c1")) >= 30
    assert shown_text(world.frames("slow")) == shown_text(world.frames("c1")) == "w" * 100
    assert world.push.overlaps == 0


async def test_a_reader_whose_connection_is_gone_is_removed_even_when_the_ledger_was_away() -> None:
    world = TurnWorld(["one", Wait(0.5), "two", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.2)
        world.push.gone.add("c1")
        await world.clock.advance(0.25)
        real = world.ledger.unfollow
        world.ledger.calls.clear()

        async def away(*_: object) -> None:
            from shared.errors import DependencyUnavailable

            raise DependencyUnavailable("away")

        world.ledger.unfollow = away  # type: ignore[method-assign,assignment]
        await world.clock.advance(0.5)
        pushes = len(world.push.requests)
        world.ledger.unfollow = real  # type: ignore[method-assign]
        await world.clock.advance(1)
        held = world.ledger._session(request.session).turns[request.turn_id]
        assert held.followers == []
        assert len(world.push.requests) == pushes
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lost_turn_is_claimed_anew_when_the_ledger_is_back() -> None:
    world = TurnWorld(["one", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.ledger.forget(request.ref)
        real = world.ledger.claim
        tries = []

        async def away(*_: object, **__: object) -> None:
            from shared.errors import DependencyUnavailable

            tries.append(1)
            raise DependencyUnavailable("away")

        world.ledger.claim = away  # type: ignore[method-assign,assignment]
        await world.clock.advance(3)
        assert 1 < len(tries) < 10
        world.ledger.claim = real  # type: ignore[method-assign]
        await world.clock.advance(2)
        assert [getattr(frame, "attempt", 0) for frame in world.log(request)] == [2, 2]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lost_turn_that_another_worker_claimed_is_left() -> None:
    world = TurnWorld(["one", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.ledger.forget(request.ref)
        await world.ledger.claim(
            request,
            nonce=ClaimNonce("other"),
            worker="w2",
            path="burst",
            grace_ms=15_000,
            now_ms=world.clock.now_ms(),
        )
        # The ledger holds attempt 1 of somebody else: as high as ours, so we are fenced.
        result = await world.finish(task)

    assert result.outcome == "superseded"
    assert world.model.calls[0].ended == "closed"


async def test_a_lost_turn_is_taken_back_from_a_living_lower_attempt() -> None:
    world = TurnWorld(["one", Forever()], ["two", Forever()])
    other = world.make_engine("worker-2", seed=2)
    async with world.running():
        request = await world.accept()
        first = world.begin(request)
        await settle()
        first.cancel()
        await world.clock.advance(3.5)
        second = world.begin(request)
        await world.clock.advance(0.5)
        world.ledger.forget(request.ref)
        async with world.running(other):
            third = world.begin(request, "burst", other)
            await settle()
            result = await world.finish(second)
            third.cancel()
            await asyncio.gather(third, return_exceptions=True)

    assert (result.outcome, result.attempt) == ("ended", 3)


async def test_a_bug_in_reclaiming_stops_the_flusher_loudly() -> None:
    world = TurnWorld(["one", Forever()])
    request = await world.accept()
    loops = asyncio.create_task(world.engine.run())
    task = world.begin(request)
    await world.clock.advance(0.5)
    world.ledger.forget(request.ref)

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    world.ledger.claim = broken  # type: ignore[method-assign,assignment]
    await world.clock.advance(2)

    assert loops.done()
    assert isinstance(loops.exception(), ExceptionGroup)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_tick_stretches_with_the_loops_own_lag() -> None:
    world = TurnWorld([step for _ in range(100) for step in (Wait(0.02), "w")])
    sleep = world.clock.sleep

    async def late(duration_s: float) -> None:
        await sleep(duration_s + (0.2 if duration_s > 0.03 else 0))

    world.clock.sleep = late  # type: ignore[method-assign]
    async with world.running():
        request = await world.accept()
        await world.finish(world.begin(request))

    assert len(world.frames()) <= 8
    assert shown_text(world.frames()) == "w" * 100
    assert GATEWAY in world.push.most_in_flight
