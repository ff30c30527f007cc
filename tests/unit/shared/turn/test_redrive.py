"""B-29: redriving hours later, twice, with turns that were answered, refused, malformed or are alive."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.contracts.dead_turns import DeadTurn, Step
from shared.contracts.identifiers import ClaimNonce
from shared.contracts.turns import TurnRequest
from shared.errors import DependencyUnavailable, ModelRejected
from shared.turn.redrive import Redrive, Redriven
from tests.fakes.dead_turns import FakeDeadTurns
from tests.fakes.deaths import letter
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_world import TurnWorld, follower

HOURS_S = 5 * 3_600


class World(TurnWorld):
    """A turn that died, and the means to run it again."""

    def __init__(self, *scripts: Any) -> None:
        super().__init__(*scripts)
        self.dead = FakeDeadTurns()
        self.queue = FakeTurnQueue()
        self.redrive = Redrive(
            dead_turns=self.dead,
            revival=self.ledger,
            sessions=self.ledger,
            store=self.store,
            queue=self.queue,
            clock=self.clock,
        )

    async def killed(self, text: str = "Hi") -> DeadTurn:
        """A turn whose only attempt was rejected by the model; its letter went through triage."""
        request = await self.accept(text)
        result = await self.finish(self.begin(request))
        assert result.status == "failed"
        return await self.triaged(self.dead_letters.letters[-1][1])

    async def triaged(self, dead_letter: Any) -> DeadTurn:
        turn = DeadTurn(
            id=dead_letter.turn.turn_id if dead_letter.turn else "message-1",
            queue="burst",
            origin="letter",
            letter=dead_letter,
            verdict="inspect",
            reason="refused_by_model",
        )
        await self.dead.keep(turn)
        return turn

    async def again(self, turn: DeadTurn, by: str = "ann") -> Redriven:
        return await self.redrive.redrive(turn.id, by=by)

    @property
    def message(self) -> TurnRequest:
        ((queue, message, delay_s),) = self.queue.sent
        assert (queue, delay_s) == ("background", 0)
        return message


REJECTED = [ModelRejected("400")]
ANSWER = ["Here it is."]


async def test_a_redriven_turn_goes_to_background_detached_and_low_with_its_last_attempt() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()
        world.clock.skip(HOURS_S)

        assert await world.again(turn) == Redriven(turn.id, "redriven", "waiting")

        message = world.message
        assert (message.detached, message.priority, message.attempt_hint) == (True, "low", 1)
        assert (message.turn_id, message.text, message.connection_id) == (turn.id, "Hi", None)
        assert message.accepted_at_ms == message.enqueued_at_ms == world.clock.now_ms()


@pytest.mark.case("B-29")
async def test_its_answer_is_stored_and_nothing_is_pushed_into_the_live_chat() -> None:
    world = World(REJECTED, ANSWER)
    async with world.running():
        turn = await world.killed()
        seen = list(world.frames())
        world.clock.skip(HOURS_S)
        await world.again(turn)

        result = await world.finish(world.begin(world.message, "queue"))

        assert (result.status, result.attempt) == ("completed", 2)
        stored = world.store.items[world.message.ref]
        assert (stored.assistant_text, stored.attempt) == ("Here it is.", 2)
        assert world.frames() == seen


async def test_a_second_redrive_changes_nothing_and_says_so() -> None:
    world = World(REJECTED, ANSWER)
    async with world.running():
        turn = await world.killed()
        await world.again(turn)

        assert await world.again(turn, "ben") == Redriven(turn.id, "already_redriven", "waiting")
        await world.finish(world.begin(world.message, "queue"))
        assert await world.again(turn, "ben") == Redriven(turn.id, "answered", "completed")

        assert len(world.queue.sent) == 1
        (kept,) = world.dead.deaths
        assert [(step.kind, step.by) for step in kept.trail] == [("redriven", "ann")]


async def test_a_turn_that_was_answered_meanwhile_is_left_alone() -> None:
    world = World(ANSWER)
    async with world.running():
        request = await world.accept()
        await world.finish(world.begin(request))
        turn = await world.triaged(letter(request))

        assert (await world.again(turn)).outcome == "answered"
        assert world.queue.sent == []


async def test_a_turn_that_somebody_runs_is_left_alone() -> None:
    world = World()
    request = await world.accept()
    await world.ledger.claim(
        request,
        nonce=ClaimNonce("n"),
        worker="w",
        path="burst",
        grace_ms=15_000,
        now_ms=world.clock.now_ms(),
    )
    turn = await world.triaged(letter(request))

    assert await world.again(turn) == Redriven(turn.id, "alive", "running")
    assert world.queue.sent == []


async def test_a_turn_that_waits_without_ever_having_died_is_left_alone() -> None:
    world = World()
    turn = await world.triaged(letter(await world.accept(), attempt=0, klass="never_ran"))

    assert await world.again(turn) == Redriven(turn.id, "alive", "waiting")
    assert world.queue.sent == []


async def test_a_turn_that_expired_stays_expired() -> None:
    world = World()
    request = await world.accept()
    await world.ledger.end_unclaimed(
        request.ref, status="expired", outcome=b"{}", now_ms=world.clock.now_ms()
    )
    turn = await world.triaged(letter(request))

    assert await world.again(turn) == Redriven(turn.id, "ended", "expired")


async def test_a_turn_that_the_ledger_forgot_runs_once_more_and_the_store_decides() -> None:
    world = World(REJECTED, ANSWER)
    async with world.running():
        turn = await world.killed()
        world.clock.skip(3 * 86_400)

        assert (await world.again(turn)).outcome == "redriven"
        assert (await world.again(turn)).outcome == "already_redriven"

        result = await world.finish(world.begin(world.message, "queue"))
        assert (result.status, result.attempt) == ("completed", 2)


@pytest.mark.case("B-29")
async def test_later_turns_of_the_user_go_first_and_stay_in_order() -> None:
    world = World(REJECTED, ANSWER, ANSWER)
    async with world.running():
        turn = await world.killed("old")
        running = await world.accept("new", reader=follower("c2"))
        await world.again(turn)

        refused = await world.finish(world.begin(world.message, "queue"))
        assert refused.outcome == "refused"
        await world.finish(world.begin(running))

        assert [each.turn_id for each in world.dispatcher.dispatched] == [turn.id]
        assert world.dispatcher.dispatched[0].attempt_hint == 1


async def test_a_malformed_message_has_nothing_to_run() -> None:
    world = World()
    turn = await world.triaged(letter(None, attempt=0, klass="malformed", raw="{"))

    assert (await world.again(turn)).outcome == "no_turn"


async def test_an_unknown_turn_is_named_as_such() -> None:
    assert await World().redrive.redrive("s1.never", by="ann") == Redriven("s1.never", "unknown")


@pytest.mark.case("B-29")
async def test_a_turn_that_died_again_can_be_redriven_three_times() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()
        trail = tuple(
            Step(kind="redriven", by="ann", at_ms=number, life_ms=number) for number in range(3)
        )
        world.dead.deaths = [msgspec.structs.replace(turn, trail=trail)]

        assert (await world.again(turn)).outcome == "too_often"
        assert world.queue.sent == []


async def test_a_redrive_that_was_cut_after_reopening_is_completed_by_the_next() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()
        world.queue.unavailable = True
        with pytest.raises(DependencyUnavailable):
            await world.again(turn)
        world.queue.unavailable = False

        assert (await world.again(turn)).outcome == "redriven"
        assert world.message.attempt_hint == 1


async def test_a_redrive_that_could_not_be_noted_is_noted_by_the_next() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()
        world.dead.failing_notes = 1
        with pytest.raises(DependencyUnavailable):
            await world.again(turn)

        assert (await world.again(turn)).outcome == "redriven"
        assert world.dead.deaths[0].redrives == 1


async def test_a_discarded_turn_stays_discarded() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()

        assert await world.redrive.discard(turn.id, by="ben", why="a test")
        assert not await world.redrive.discard(turn.id, by="ben", why="again")

        assert (await world.again(turn)).outcome == "discarded"
        (kept,) = world.dead.deaths
        assert [(step.kind, step.by, step.note) for step in kept.trail] == [
            ("discarded", "ben", "a test")
        ]


async def test_an_operators_slow_clock_neither_hides_a_redrive_nor_the_next_death() -> None:
    world = World(REJECTED)
    async with world.running():
        turn = await world.killed()
        life_ms = turn.life_ms
        later = msgspec.structs.replace(turn.letter, dead_at_ms=life_ms + 86_400_000)
        world.dead.deaths = [msgspec.structs.replace(turn, letter=later)]

        await world.again(turn)

        assert world.dead.deaths[0].state == "redriven"
        assert world.message.accepted_at_ms > life_ms
