"""The end of a claimed turn: store, evidence, ledger, in this order, whoever else ends it meanwhile."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import Append, FinishAnswer
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseFailed,
    Timings,
    Usage,
)
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import TurnRequest
from shared.errors import (
    ConfigurationError,
    DependencyUnavailable,
    ModelOverloaded,
    ModelRejected,
)
from shared.turn.result import TurnResult
from shared.turn.stored_replay import stored_frames
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Step, Wait
from tests.fakes.turn_world import TurnWorld, follower, only, shown_text

HALF: list[Step] = ["Half", Forever()]


def stored_answer(request: TurnRequest, attempt: int) -> StoredTurn:
    return StoredTurn(
        ref=request.ref,
        message_id=request.message_id,
        attempt=attempt,
        nonce="theirs",
        status="completed",
        user_text=request.text,
        assistant_text="Theirs",
        stop_reason="end_turn",
        intent="general",
        model="m",
        usage=Usage(),
        timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
        sources=(),
        accepted_at_ms=request.accepted_at_ms,
        completed_at_ms=request.accepted_at_ms,
    )


async def second_attempt(world: TurnWorld) -> TurnRequest:
    """A turn whose first attempt died with half an answer shown."""
    request = await world.accept()
    task = world.begin(request)
    await world.clock.advance(0.2)
    task.cancel()
    await settle()
    await world.clock.advance(3.5)
    return request


async def test_a_second_attempt_that_fails_leaves_a_marker_before_it_ends() -> None:
    world = TurnWorld(HALF, ["More", ModelOverloaded("busy")])
    async with world.running():
        request = await second_attempt(world)
        result = await world.finish(world.begin(request))

    assert (result.status, result.attempt) == ("failed", 2)
    marker = world.store.items[request.ref]
    assert (marker.status, marker.attempt, marker.stop_reason, marker.assistant_text) == (
        "marker",
        2,
        "failed",
        "",
    )
    assert await world.store.put(stored_answer(request, attempt=1)) == marker


async def test_earlier_attempts_count_towards_the_tries_of_a_turn() -> None:
    world = TurnWorld(HALF, [ModelOverloaded("busy")])
    async with world.running():
        request = await second_attempt(world)
        result = await world.finish(world.begin(request))

    assert (result.status, result.code) == ("failed", "model_overloaded")
    assert len(world.model.calls) == 3


async def test_an_end_after_shown_text_gives_way_to_an_answer_that_is_stored() -> None:
    world = TurnWorld(HALF, ["More", Wait(1), ModelOverloaded("busy")])
    async with world.running():
        request = await second_attempt(world)
        task = world.begin(request)
        await world.clock.advance(0.2)
        world.store.items[request.ref] = stored_answer(request, attempt=1)
        result = await world.finish(task)
        assert (result.outcome, result.acknowledge) == ("superseded", True)
        assert world.ledger._session(request.session).turns[request.turn_id].outcome is None

        await world.clock.advance(3.5)
        takeover = await world.finish(world.begin(request))

    assert (takeover.status, takeover.attempt) == ("completed", 3)
    frames = [frame for frame in world.frames() if getattr(frame, "attempt", 0) == 3]
    assert shown_text(frames) == "Theirs"


@pytest.mark.parametrize("stored_attempt", [1, 2, 3])
async def test_a_stop_before_any_text_gives_way_to_an_answer_that_is_stored(
    stored_attempt: int,
) -> None:
    """The user pressed stop, but the answer was stored before: the end is `completed`, whatever the flag."""
    world = TurnWorld(HALF, ["Fine"])
    async with world.running():
        request = await second_attempt(world)
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        world.store.items[request.ref] = stored_answer(request, attempt=stored_attempt)
        result = await world.finish(world.begin(request))

    assert (result.status, result.attempt) == ("completed", 2)
    assert shown_text([f for f in world.frames() if getattr(f, "attempt", 0) == 2]) == "Theirs"
    kept = world.store.items[request.ref]
    assert (kept.assistant_text, kept.attempt) == ("Theirs", max(stored_attempt, 2))
    async with world.running():
        await world.answer("And now?")
    contents = [message.content for message in world.model.calls[-1].prompt.messages]
    assert contents[:2] == ["Hi", "Theirs"]


async def test_an_answer_that_is_delivered_can_no_longer_be_replaced_by_an_attempt_in_between() -> (
    None
):
    world = TurnWorld(HALF, [Forever()])
    async with world.running():
        request = await second_attempt(world)
        between = world.begin(request)
        await world.clock.advance(0.5)
        between.cancel()
        await settle()
        world.store.items[request.ref] = stored_answer(request, attempt=1)
        await world.clock.advance(3.5)
        delivery = await world.finish(world.begin(request))
        late = msgspec.structs.replace(
            stored_answer(request, attempt=2), nonce="between", assistant_text="Other"
        )
        winner = await world.store.put(late)

    assert (delivery.status, delivery.attempt) == ("completed", 3)
    assert winner is not None
    assert world.store.items[request.ref].assistant_text == "Theirs"


async def test_an_answer_that_a_newer_producer_stores_meanwhile_is_left_to_it() -> None:
    world = TurnWorld(HALF)
    async with world.running():
        request = await second_attempt(world)
        world.store.items[request.ref] = stored_answer(request, attempt=1)
        newer = msgspec.structs.replace(
            stored_answer(request, attempt=3), nonce="newer", assistant_text="Newer"
        )

        async def put(turn: StoredTurn) -> StoredTurn:
            world.store.items[request.ref] = newer
            return newer

        world.store.put = put  # type: ignore[method-assign]
        result = await world.finish(world.begin(request))

    assert (result.outcome, result.attempt) == ("superseded", 2)
    assert shown_text([f for f in world.frames() if getattr(f, "attempt", 0) == 2]) == ""


async def test_an_end_is_marked_as_well_when_the_lease_may_have_lapsed() -> None:
    world = TurnWorld([Forever()], first_event_timeout_ms=5_000, attempts_per_turn=1)
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(1.5)
        world.ledger.unavailable = True
        await world.clock.advance(4)
        world.ledger.unavailable = False
        result = await world.finish(task)

    assert (result.status, result.code) == ("failed", "model_timeout")
    assert world.store.items[request.ref].status == "marker"


async def test_an_end_that_cannot_be_marked_is_an_end_all_the_same() -> None:
    world = TurnWorld(HALF, ["More", ModelOverloaded("busy")], settle_patience_ms=1_000)
    async with world.running():
        request = await second_attempt(world)
        world.store.failing_puts = 99
        result = await world.finish(world.begin(request))

    assert result.status == "failed"


async def test_a_turn_that_somebody_else_ended_meanwhile_is_left() -> None:
    world = TurnWorld(["Mine"])
    real = world.ledger.finish

    async def ended_first(append: Append, **rest: object) -> FinishAnswer:
        held = world.ledger._session(append.claim.turn.session).turns[append.claim.turn.turn_id]
        held.status, held.outcome = "failed", b"theirs"
        return await real(append, **rest)  # type: ignore[arg-type]

    world.ledger.finish = ended_first  # type: ignore[method-assign,assignment]
    async with world.running():
        result = await world.answer()

    assert result.outcome == "superseded"


async def finish_after_a_loss(hint: int) -> tuple[TurnWorld, TurnResult]:
    """A second attempt finds at its end that the ledger lost it, and that another worker claimed above `hint`."""
    world = TurnWorld(HALF, ["Mine"])
    real = world.ledger.finish

    async def lose_first(append: Append, **rest: object) -> FinishAnswer:
        world.ledger.finish = real  # type: ignore[method-assign]
        world.ledger.forget(append.claim.turn)
        await world.ledger.claim(
            msgspec.structs.replace(request, attempt_hint=hint),
            nonce=ClaimNonce("other"),
            worker="w2",
            path="burst",
            grace_ms=15_000,
            now_ms=world.clock.now_ms(),
        )
        return await real(append, **rest)  # type: ignore[arg-type]

    async with world.running():
        request = await second_attempt(world)
        world.ledger.finish = lose_first  # type: ignore[method-assign,assignment]
        return world, await world.finish(world.begin(request))


async def test_a_turn_that_was_lost_and_claimed_above_by_another_worker_at_the_end_is_left() -> (
    None
):
    _, result = await finish_after_a_loss(hint=2)

    assert (result.outcome, result.status) == ("superseded", None)


async def test_a_turn_that_was_lost_and_claimed_below_is_taken_back_for_readers_who_know_it() -> (
    None
):
    world, result = await finish_after_a_loss(hint=0)

    assert (result.outcome, result.status) == ("ended", "completed")
    assert result.attempt == 3
    assert [turn.assistant_text for turn in world.store.items.values()] == ["Mine"]


async def test_a_lost_answer_to_the_end_is_not_mistaken_for_somebody_elses_end() -> None:
    """The end was taken, its answer got lost, and the next renewal says: ended."""
    world = TurnWorld(["Mine"])
    real = world.ledger.finish

    async def lose_the_answer(append: Append, **rest: object) -> FinishAnswer:

        first = append.claim.turn not in seen
        seen.add(append.claim.turn)
        answer = await real(append, **rest)  # type: ignore[arg-type]
        if first:
            await world.engine.keeper.renew()
            raise DependencyUnavailable("the answer got lost")
        return answer

    seen: set[object] = set()
    world.ledger.finish = lose_the_answer  # type: ignore[method-assign,assignment]
    async with world.running():
        result = await world.answer()

    assert (result.outcome, result.status) == ("ended", "completed")
    assert world.frames()[-1].stop_reason == "end_turn"  # type: ignore[union-attr]


async def test_a_stop_that_comes_while_the_answer_is_stored_changes_nothing() -> None:
    world = TurnWorld(["Whole"])
    async with world.running():
        request = await world.accept()
        real = world.store.put

        async def slow_put(turn: StoredTurn) -> StoredTurn | None:
            await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
            await world.clock.sleep(1.5)
            return await real(turn)

        world.store.put = slow_put  # type: ignore[method-assign]
        result = await world.finish(world.begin(request))

    assert result.status == "completed"


async def test_errors_of_a_call_that_is_being_closed_do_not_hide_the_stop() -> None:
    world = TurnWorld(["Half", Forever()])
    real = world.model.stream

    class Breaking:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        async def __aenter__(self) -> object:
            return await self.inner.__aenter__()  # type: ignore[attr-defined]

        async def __aexit__(self, *details: object) -> None:
            await self.inner.__aexit__(*details)  # type: ignore[attr-defined]
            raise ModelOverloaded("while closing")

    world.model.stream = lambda prompt: Breaking(real(prompt))  # type: ignore[method-assign,assignment,return-value]
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(0.5)
        await world.ledger.cancel(request.ref, b"", world.clock.now_ms())
        result = await world.finish(task)

    assert result.status == "cancelled"


async def test_a_blank_half_is_never_part_of_the_cached_history() -> None:
    world = TurnWorld([KeyError()], ["Fine"])
    async with world.running():
        await world.answer()
        only(world.frames(), ResponseFailed)
        await world.answer("again")

    roles = [message.role for message in world.model.calls[-1].prompt.messages]
    assert roles == ["user"]
    await asyncio.sleep(0)


async def test_a_partial_answer_that_nobody_read_to_its_end_replays_as_it_ended() -> None:
    world = TurnWorld(HALF, silence_timeout_ms=60_000)
    async with world.running():
        request = await world.accept()
        task = world.begin(request)
        await world.clock.advance(1)
        await world.ledger.unfollow([request.ref], follower(), world.clock.now_ms())
        await world.finish(task, within_s=20)

    *_, logged = world.log(request)
    *_, replayed = stored_frames(world.store.items[request.ref], attempt=2)
    assert isinstance(logged, ResponseCancelled)
    assert isinstance(replayed, ResponseCancelled)
    assert replayed.by == logged.by == "disconnect"


@pytest.mark.parametrize(
    ("error", "code", "klass"),
    [
        (ModelRejected("invalid request"), "model_rejected", "failed"),
        (ConfigurationError("the provider refused our key"), "internal", "failed"),
    ],
)
async def test_a_permanent_error_is_dead_lettered_at_the_first_failure(
    error: Exception, code: str, klass: str
) -> None:
    world = TurnWorld([error])
    async with world.running():
        await world.answer("Hi", path="queue", priority="normal", detached=True)

    ((queue, letter),) = world.dead_letters.letters
    assert (queue, letter.klass) == ("deferred", klass)
    assert len(world.model.calls) == 1


async def test_the_end_comes_even_when_no_dead_letter_can_be_sent() -> None:
    world = TurnWorld([KeyError()])
    world.dead_letters.failing = 99
    async with world.running():
        result = await world.answer("Hi")

    assert result.status == "failed"


async def test_a_dead_letter_is_sent_again_before_the_turn_ends() -> None:
    world = TurnWorld([KeyError()])
    world.dead_letters.failing = 2
    async with world.running():
        task = world.begin(await world.accept("Hi"))
        await settle()
        assert not world.dead_letters.letters
        assert not any(isinstance(frame, ResponseFailed) for frame in world.frames())
        await world.finish(task)

    assert len(world.dead_letters.letters) == 1
    only(world.frames(), ResponseFailed)


@pytest.mark.case("B-27")
async def test_the_finisher_dispatches_the_next_head() -> None:
    world = TurnWorld(["One", Wait(1), "."])
    async with world.running():
        task = world.begin(await world.accept("first"))
        await world.accept("second")
        await world.finish(task)

    (head,) = world.dispatcher.dispatched
    assert (head.text, head.ready_at_ms > 0) == ("second", True)
