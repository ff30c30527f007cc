"""Storing the end of a turn: patient with a store that is away, quick with one that refuses."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseFailed,
)
from shared.contracts.turns import TurnRequest
from shared.errors import (
    ConfigurationError,
    DependencyUnavailable,
    ItemTooLarge,
)
from shared.turn.archive import Archive
from shared.turn.markers import end_marker
from tests.fakes.clock import FakeClock, FakeRandomness, settle
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.turn_world import TurnWorld, only, shown_text


async def test_a_store_that_refuses_the_answer_ends_the_turn_at_once_in_words() -> None:
    """The role lost PutItem: asking again cannot help, and nobody may wait for an end for ever."""
    world = TurnWorld(["Answer", Wait(0.5)])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.3)
        world.store.refusing = True
        result = await world.finish(task, within_s=2)

    assert (result.outcome, result.status, result.code) == ("ended", "failed", "internal")
    assert only(world.frames(), ResponseFailed).partial
    (_, letter) = world.dead_letters.letters[0]
    assert (letter.klass, letter.answer) == ("not_stored", "Answer")
    assert letter.error.type == "ConfigurationError"


async def test_a_store_that_refuses_the_partial_answer_of_a_stop_does_not_hide_the_stop() -> None:
    world = TurnWorld(["Half", Forever()])
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.3)
        world.store.refusing = True
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        result = await world.finish(task, within_s=3)

    assert (result.outcome, result.status) == ("ended", "cancelled")
    assert only(world.frames(), ResponseCancelled).by == "user"
    assert world.dead_letters.letters[0][1].klass == "not_stored"


async def test_a_store_that_refuses_a_marker_does_not_keep_a_later_attempt_from_ending() -> None:
    world = TurnWorld(["Half", Forever()], ["More", Wait(0.5), ConfigurationError("no model")])
    async with world.running():
        request = await crashed(world)
        task = world.begin(request)
        await world.clock.advance(0.3)
        world.store.refusing = True
        result = await world.finish(task, within_s=2)

    assert (result.outcome, result.status, result.attempt) == ("ended", "failed", 2)
    assert only(world.frames(), ResponseFailed).attempt == 2
    assert world.store.items == {}


async def crashed(world: TurnWorld) -> TurnRequest:
    """A turn whose first worker was stopped in mid-answer."""
    request = await world.accept()
    task = world.begin(request)
    await world.clock.advance(0.3)
    task.cancel()
    await world.clock.advance(3.5)
    return request


class TestPatience:
    """Over the store alone, on a clock that jumps."""

    def setup_method(self) -> None:
        self.clock = FakeClock(auto=True)
        self.store = FakeTurnStore()
        self.archive = Archive(self.store, self.clock, FakeRandomness(), patience_ms=5_000)

    async def test_a_store_that_stays_away_is_asked_until_the_patience_is_used_up(self) -> None:
        self.store.unavailable = True

        with pytest.raises(DependencyUnavailable):
            await self.archive.put(await self.marker())

        assert 3 <= self.clock.monotonic_s() < 5
        assert 4 <= self.store.puts <= 8

    @pytest.mark.parametrize("error", [ConfigurationError, ItemTooLarge])
    async def test_a_refusal_is_raised_at_once(self, error: type[Exception]) -> None:
        self.store.refusing = error is ConfigurationError
        marker = await self.marker("x" * 500_000)

        with pytest.raises(error):
            await self.archive.put(marker)

        assert (self.clock.monotonic_s(), self.store.puts) == (0, 1)

    async def marker(self, text: str = "Hi"):  # type: ignore[no-untyped-def]
        request = await TurnWorld().accept(text)
        return end_marker(request, status="failed", attempt=1, nonce="n", now_ms=1)


@pytest.mark.case("B-38")
async def test_an_answer_that_cannot_be_stored_is_reported_and_kept_as_evidence() -> None:
    world = TurnWorld(["Shown"], settle_patience_ms=3_000)
    async with world.running():
        world.store.failing_puts = 99
        await world.answer("Hi")

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.partial, end.retryable) == ("internal", True, True)
    ((_, letter),) = world.dead_letters.letters
    assert (letter.klass, letter.answer) == ("not_stored", "Shown")


@pytest.mark.case("B-38")
async def test_a_store_that_comes_back_keeps_the_answer() -> None:
    world = TurnWorld(["Shown"])
    async with world.running():
        request = await world.accept("Hi")
        world.store.failing_puts = 3
        result = await world.finish(world.begin(request))

    assert result.status == "completed"
    assert not world.dead_letters.letters


@pytest.mark.case("B-20")
async def test_an_answer_above_the_item_limit_is_not_stored_and_said_so() -> None:
    world = TurnWorld(["x" * 400_001])
    async with world.running():
        await world.answer("Hi")

    assert world.dead_letters.letters[0][1].klass == "not_stored"


async def test_a_stopped_answer_that_cannot_be_stored_is_evidence_too() -> None:
    world = TurnWorld(["Half", Forever()], settle_patience_ms=1_000)
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await world.clock.advance(0.5)
        world.store.unavailable = True
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        await world.finish(task)

    assert only(world.frames(), ResponseCancelled).length == 4
    assert world.dead_letters.letters[0][1].klass == "not_stored"


@pytest.mark.case("B-21")
async def test_a_put_whose_answer_got_lost_is_our_own() -> None:
    world = TurnWorld(["Shown"])
    world.store.lost_answers = 1
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "completed"
    assert world.store.puts == 2


async def test_an_answer_stored_by_a_newer_attempt_leaves_the_end_to_it() -> None:
    world = TurnWorld(["Mine", Wait(1), " too"], ["Theirs"])
    async with world.running():
        request = await world.accept("Hi")
        task = world.begin(request)
        await settle()
        source = TurnWorld(["Theirs"])
        async with source.running():
            await source.answer("Hi")
        (item,) = source.store.items.values()
        world.store.items[request.ref] = msgspec.structs.replace(
            item, ref=request.ref, attempt=2, nonce="theirs"
        )
        result = await world.finish(task)
        assert (result.outcome, result.acknowledge) == ("superseded", True)
        await world.clock.advance(4)
        takeover = await world.finish(world.begin(request))

    assert takeover.status == "completed"
    frames = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 2]
    assert shown_text(frames) == "Theirs"
