"""Dead letters: sent patiently, and never in the way of an end."""

from __future__ import annotations

import pytest

from shared.contracts.dead_letters import DeadLetter, DeadLetterError
from shared.turn.evidence import Evidence, dead_letter_queue
from tests.fakes.clock import FakeClock, FakeRandomness
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
