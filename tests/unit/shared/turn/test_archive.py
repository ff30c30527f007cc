"""Storing the end of a turn: patient with a store that is away, quick with one that refuses."""

from __future__ import annotations

import pytest

from shared.contracts.server_frames import ResponseCancelled, ResponseCompleted, ResponseFailed
from shared.contracts.turns import TurnRequest
from shared.errors import ConfigurationError, DependencyUnavailable, ItemTooLarge
from shared.turn.archive import Archive
from shared.turn.markers import end_marker
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.model import Forever, Wait
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.turn_world import TurnWorld, only


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


async def test_a_store_that_comes_back_in_time_keeps_the_answer() -> None:
    world = TurnWorld(["Answer"])
    async with world.running():
        world.store.failing_puts = 4
        result = await world.answer()

    assert result.status == "completed"
    assert only(world.frames(), ResponseCompleted).length == 6
    assert world.store.puts == 5


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
