"""One model call and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from shared.contracts.model import ModelEvent, Prompt, TextDelta
from shared.errors import ModelDisconnected
from shared.turn.generation import Generation, Overdue
from shared.turn.timings import Stopwatch
from tests.fakes.clock import FakeClock, settle
from tests.fakes.limits import turn_limits
from tests.fakes.model import FakeModel, Forever, Wait
from tests.fakes.turn_world import TurnWorld

PROMPT = Prompt(model="m", system="s", messages=(), max_tokens=1)


class EndsEarly:
    """A stream that simply ends."""

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[AsyncIterator[Sequence[ModelEvent]]]:
        async def events() -> AsyncIterator[Sequence[ModelEvent]]:
            yield [TextDelta("a")]

        yield events()


class Words:
    """A writer that only keeps text."""

    text = ""

    def write(self, text: str) -> None:
        self.text += text


async def test_a_stream_without_a_stop_reason_broke_off() -> None:
    clock = FakeClock()
    generation = Generation(EndsEarly(), clock, turn_limits())  # type: ignore[arg-type]

    with pytest.raises(ModelDisconnected):
        await generation.generate(
            PROMPT,
            Words(),
            Stopwatch(clock, 0),
            first_text_by_ms=None,  # type: ignore[arg-type]
        )


async def test_a_call_begun_after_its_first_text_limit_is_overdue_at_once() -> None:
    clock = FakeClock()
    model = FakeModel(clock, [Forever()])
    generation = Generation(model, clock, turn_limits())

    generated = await generation.generate(
        PROMPT,
        Words(),  # type: ignore[arg-type]
        Stopwatch(clock, 0),
        first_text_by_ms=clock.now_ms() - 1,
    )

    assert generated == Overdue()
    assert model.open_calls == 0


async def test_the_first_text_is_timed_once() -> None:
    clock = FakeClock()
    stopwatch = Stopwatch(clock, clock.now_ms())
    generation = Generation(FakeModel(clock, [Wait(0.3), "a", Wait(1), "b"]), clock, turn_limits())

    task = asyncio.create_task(
        generation.generate(PROMPT, Words(), stopwatch, first_text_by_ms=None)  # type: ignore[arg-type]
    )
    await clock.advance(2)
    await task

    timings = stopwatch.timings()
    assert (timings.queued_ms, timings.first_token_ms, timings.total_ms) == (0, 300, 2_000)


async def test_no_timer_outlives_a_call() -> None:
    world = TurnWorld(["a"])
    async with world.running():
        await world.answer()
        await settle()
        names = {task.get_name() for task in asyncio.all_tasks() if not task.done()}

    assert not {name for name in names if "watch" in name}
