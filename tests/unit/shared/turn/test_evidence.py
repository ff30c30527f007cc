"""Dead letters: sent patiently, and never in the way of an end."""

from __future__ import annotations

import pytest

import shared.errors
from shared.contracts.dead_letters import DeadLetter, DeadLetterError
from shared.errors import (
    ChatError,
    GuardrailBlocked,
    MalformedDocument,
    MalformedMessage,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelTimeout,
)
from shared.turn.evidence import Evidence, dead_letter_queue
from shared.turn.writer import Stop
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.model import Forever
from tests.fakes.queues import FakeDeadLetterQueue
from tests.fakes.turn_world import TurnWorld

LETTER = DeadLetter(
    turn=None,
    klass="failed",
    error=DeadLetterError(type="Bug", message="", stack=""),
    attempts=(),
    dead_at_ms=1,
    fingerprint="f",
)


COUNTED = (
    ModelOverloaded,
    ModelRateLimited,
    ModelTimeout,
    ModelDisconnected,
    GuardrailBlocked,
)
"""Failures of others, and answers of ours: whatever else ends a turn is a failure of ours."""


def kinds_of_error() -> list[type[ChatError]]:
    """Every type of shared/errors.py, those of later versions included."""
    return [
        kind
        for kind in vars(shared.errors).values()
        if isinstance(kind, type) and issubclass(kind, ChatError)
    ]


def an_error(kind: type[Exception]) -> Exception:
    if kind is MalformedMessage:
        return MalformedMessage("x", b"raw")
    if kind is MalformedDocument:
        return MalformedDocument("x", 1, "y")
    return kind("x")


class TestEnds:
    """Every end is a dead letter or counted, by whose failure it is."""

    @pytest.mark.parametrize("kind", [*kinds_of_error(), ZeroDivisionError])
    @pytest.mark.parametrize("shown", [[], ["Half "]])
    async def test_every_kind_of_error_leaves_the_evidence_it_owes(
        self, kind: type[Exception], shown: list[str]
    ) -> None:
        world = TurnWorld([*shown, an_error(kind)])
        async with world.running():
            result = await world.answer("Hi", within_s=90)

        assert result.status == "failed"
        letters = 0 if kind in COUNTED else 1
        assert len(world.dead_letters.letters) == letters
        assert f'"Code":"{result.code}"' in world.metrics.getvalue()

    @pytest.mark.parametrize("stop", Stop)
    async def test_every_reason_to_stop_leaves_the_evidence_it_owes(self, stop: Stop) -> None:
        world = TurnWorld(["Half", Forever()])
        async with world.running():
            task = world.begin(await world.accept("Hi"))
            await world.clock.advance(0.2)
            (writer,) = world.engine.flusher._live
            writer.stop(stop)
            result = await world.finish(task)

        status, letters = {
            Stop.CANCELLED: ("cancelled", 0),
            Stop.READERLESS: ("cancelled", 0),
            Stop.FENCED: (None, 0),
            Stop.REFUSED: ("failed", 1),
        }[stop]
        assert result.status == status
        assert len(world.dead_letters.letters) == letters
        assert world.metrics.getvalue().count('"TurnEnded":') == (status is not None)


class TestSend:
    def setup_method(self) -> None:
        self.clock = FakeClock(auto=True)
        self.queue = FakeDeadLetterQueue()
        self.evidence = Evidence(self.queue, self.clock, FakeRandomness(), worker="w")

    async def test_a_letter_is_sent_again_while_the_queue_is_away(self) -> None:
        self.queue.failing = 2

        assert await self.evidence.send("burst", LETTER)

        assert self.queue.letters == [("burst", LETTER)]

    async def test_a_queue_that_refuses_is_asked_once_and_raises_nothing(self) -> None:
        self.queue.refusing = True

        assert not await self.evidence.send("burst", LETTER)

        assert (self.queue.sends, self.clock.monotonic_s()) == (1, 0)

    async def test_nothing_is_waited_for_after_the_last_try(self) -> None:
        self.queue.failing = 99
        tried_at_s: list[float] = []
        send = self.queue.send

        async def noted(*letter: object) -> None:
            tried_at_s.append(self.clock.monotonic_s())
            await send(*letter)  # type: ignore[arg-type]

        self.queue.send = noted  # type: ignore[method-assign]

        assert not await self.evidence.send("burst", LETTER)

        assert len(tried_at_s) >= 4
        assert self.clock.monotonic_s() == tried_at_s[-1]


@pytest.mark.parametrize(
    ("path", "priority", "queue"),
    [
        ("inline", "high", "burst"),
        ("burst", "high", "burst"),
        ("queue", "normal", "deferred"),
        ("queue", "low", "background"),
        ("queue", "high", "burst"),
    ],
)
async def test_the_path_and_behind_it_the_priority_choose_the_queue(
    path: str, priority: str, queue: str
) -> None:
    request = await TurnWorld().accept(detached=priority != "high", priority=priority)

    assert dead_letter_queue(request, path) == queue  # type: ignore[arg-type]
