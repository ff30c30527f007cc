"""B-29: each dead letter gets a class and a proposed action, whatever shape it comes in."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest

from functions.dlq_triage.dead_message import DeadMessage
from functions.dlq_triage.triage import Triage
from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import Append, Claimed
from shared.contracts.server_frames import ResponseFailed
from shared.contracts.turns import TurnRequest, encode_turn
from shared.telemetry import Metrics
from shared.turn.ended_turns import EndedTurns
from shared.turn.markers import end_marker
from tests.fakes.dead_turns import FakeDeadTurns
from tests.fakes.deaths import NOW_MS, letter
from tests.fakes.queues import FakeDispatcher
from tests.fakes.turn_world import TurnWorld, only


class World(TurnWorld):
    """A triage, and everything that it looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = FakeDeadTurns()
        self.metrics = io.StringIO()
        self.dispatcher = FakeDispatcher()
        self.triage = Triage(
            sessions=self.ledger,
            claims=self.ledger,
            store=self.store,
            push=self.push,
            dispatcher=self.dispatcher,
            dead_turns=self.dead,
            clock=self.clock,
            metrics=Metrics("burstchat", "dlq_triage", self.clock, self.metrics),
            ended=EndedTurns(self.events),
        )

    async def take(self, *bodies: str | bytes) -> list[str]:
        """Triage messages with the ids m0, m1 …; answers the ids that come back."""
        messages = [
            DeadMessage(f"m{number}", body if isinstance(body, str) else body.decode(), "burst", 6)
            for number, body in enumerate(bodies)
        ]
        return [message.message_id for message in await self.triage.run(messages)]

    def counted(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.metrics.getvalue().splitlines()]
        return [line for line in lines if name in line]

    async def claim(self, request: TurnRequest) -> Claimed:
        answer = await self.ledger.claim(
            request,
            nonce=ClaimNonce("n"),
            worker="w",
            path="burst",
            grace_ms=15_000,
            now_ms=self.clock.now_ms(),
        )
        assert isinstance(answer, Claimed)
        return answer

    async def store_answer(self, request: TurnRequest) -> None:
        marker = end_marker(request, status="failed", attempt=1, nonce="n", now_ms=NOW_MS)
        self.store.items[request.ref] = msgspec.structs.replace(
            marker, status="completed", assistant_text="Here."
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_a_letter_of_ours_is_kept_with_class_and_verdict(world: World) -> None:
    request = await world.accept()

    assert await world.take(msgspec.json.encode(letter(request))) == []

    (turn,) = world.dead.deaths
    assert (turn.id, turn.origin, turn.verdict) == (request.turn_id, "letter", "inspect")
    assert turn.letter == letter(request)
    (counted,) = world.counted("DeadTurns")
    assert (counted["Role"], counted["DeadLetterClass"]) == ("dlq_triage", "failed")
    assert len(world.counted("NewFingerprint")) == 1


async def test_a_letter_that_comes_twice_is_kept_and_counted_once(world: World) -> None:
    body = msgspec.json.encode(letter(await world.accept()))

    assert await world.take(body) == []
    assert await world.take(body) == []

    assert len(world.dead.deaths) == 1
    assert len(world.counted("DeadTurns")) == 1


async def test_a_message_that_sqs_moved_unclaimed_ends_its_turn_and_tells_the_reader(
    world: World,
) -> None:
    request = await world.accept("Hello")

    assert await world.take(encode_turn(request)) == []

    frame = only(world.frames(), ResponseFailed)
    assert (frame.code, frame.attempt, frame.seq) == ("internal", 0, 0)
    state = await world.ledger.state(request.ref)
    assert state is not None
    assert state.status == "failed"
    (turn,) = world.dead.deaths
    assert (turn.origin, turn.letter.klass, turn.verdict) == ("moved", "never_ran", "redrive")
    [event] = world.events.noted
    assert (event.status, event.code, event.ended_by) == ("failed", "internal", "triage")
    assert turn.letter.turn == request


async def test_a_turn_behind_an_ended_one_goes_on(world: World) -> None:
    first, second = await world.accept("first"), await world.accept("second")

    await world.take(encode_turn(first))

    assert [each.turn_id for each in world.dispatcher.dispatched] == [second.turn_id]


async def test_a_repeat_after_the_end_was_written_is_judged_the_same(world: World) -> None:
    request = await world.accept()
    world.dead.unavailable = True
    assert await world.take(encode_turn(request)) == ["m0"]
    world.dead.unavailable = False

    assert await world.take(encode_turn(request)) == []

    (turn,) = world.dead.deaths
    assert (turn.letter.klass, turn.verdict) == ("never_ran", "redrive")
    only(world.frames(), ResponseFailed)


async def test_the_message_of_a_turn_that_somebody_runs_comes_back(world: World) -> None:
    request = await world.accept()
    await world.claim(request)

    assert await world.take(encode_turn(request)) == ["m0"]

    assert world.dead.deaths == []
    assert world.frames() == []


async def test_the_message_of_a_turn_behind_another_comes_back(world: World) -> None:
    await world.accept("first")
    second = await world.accept("second")

    assert await world.take(encode_turn(second)) == ["m0"]


async def test_a_moved_message_whose_turn_was_answered_is_told_apart(world: World) -> None:
    request = await world.accept()
    claim = (await world.claim(request)).ref
    await world.ledger.finish(
        Append(claim, 0, (b"started", b"end")),
        status="completed",
        history=None,
        now_ms=world.clock.now_ms(),
    )
    await world.store_answer(request)

    assert await world.take(encode_turn(request)) == []

    (turn,) = world.dead.deaths
    assert (turn.verdict, turn.reason) == ("discard", "answered")


async def test_a_body_that_nobody_can_read_is_kept_as_it_is(world: World) -> None:
    bodies = ["{not json \ud800", "[]", '{"schema":9}', '{"kind":"dead_letter","schema":7}']

    assert await world.take(*bodies) == []

    assert [turn.letter.klass for turn in world.dead.deaths] == ["malformed"] * 4
    assert [turn.id for turn in world.dead.deaths] == [f"message-m{n}" for n in range(4)]
    assert world.dead.deaths[0].letter.raw == "{not json \\ud800"
    assert len({turn.letter.fingerprint for turn in world.dead.deaths}) == 1


async def test_a_malformed_letter_of_the_worker_keeps_its_raw_body(world: World) -> None:
    body = msgspec.json.encode(letter(None, attempt=0, klass="malformed", raw="{broken"))

    assert await world.take(body) == []

    (turn,) = world.dead.deaths
    assert (turn.id, turn.letter.raw, turn.verdict) == ("message-m0", "{broken", "inspect")


async def test_one_message_that_cannot_be_triaged_does_not_hold_up_the_others(
    world: World,
) -> None:
    good, bad = await world.accept(), await world.accept()
    known_state = world.ledger.state

    async def state(turn: Any) -> Any:
        if turn == bad.ref:
            raise ZeroDivisionError
        return await known_state(turn)

    world.ledger.state = state  # type: ignore[method-assign]

    assert await world.take(encode_turn(bad), encode_turn(good)) == ["m0"]
    assert [turn.id for turn in world.dead.deaths] == [good.turn_id]


@pytest.mark.parametrize("away", ["ledger", "store", "dead"])
async def test_a_message_comes_back_while_something_cannot_be_asked(
    world: World, away: str
) -> None:
    request = await world.accept()
    getattr(world, away).unavailable = True

    assert await world.take(encode_turn(request)) == ["m0"]


async def test_ten_deaths_of_one_kind_within_minutes_are_reported_as_growth(world: World) -> None:
    turns = [await world.accept() for _ in range(10)]
    now_ms = world.clock.now_ms()
    bodies = [msgspec.json.encode(letter(turn, dead_at_ms=now_ms)) for turn in turns]

    await world.take(*bodies[:9])
    assert world.counted("GrowingFingerprint") == []
    await world.take(*bodies[9:])

    assert len(world.counted("GrowingFingerprint")) == 1
    assert len(world.counted("NewFingerprint")) == 1


async def test_message_text_is_never_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    request = await world.accept("my secret diagnosis")

    with caplog.at_level("DEBUG", "burstchat"):
        await world.take(
            encode_turn(request),
            msgspec.json.encode(letter(request)),
            '{"text": "my secret diagnosis"}',
        )

    said = " ".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "dead_turn.kept" in said
    assert "secret" not in said
    assert "secret" not in world.metrics.getvalue()
