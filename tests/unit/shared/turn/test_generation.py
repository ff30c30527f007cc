"""One model call and its end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, Prompt, TextDelta
from shared.contracts.server_frames import (
    ResponseFailed,
    Usage,
)
from shared.errors import (
    ModelDisconnected,
)
from shared.telemetry import Metrics
from shared.turn.generation import Generation, Overdue
from shared.turn.screening import Screening
from shared.turn.timings import Stopwatch
from tests.fakes.clock import FakeClock, settle
from tests.fakes.limits import turn_limits
from tests.fakes.model import FakeModel, Forever, Wait
from tests.fakes.turn_world import TurnWorld, only

SCREENING = Screening(Metrics("test", "orchestrator", FakeClock(), io.StringIO()))
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
    generation = Generation(EndsEarly(), SCREENING, clock, turn_limits())  # type: ignore[arg-type]

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
    generation = Generation(model, SCREENING, clock, turn_limits())

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
    generation = Generation(
        FakeModel(clock, [Wait(0.3), "a", Wait(1), "b"]), SCREENING, clock, turn_limits()
    )

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


@pytest.mark.case("B-24")
async def test_pings_alone_keep_a_call_alive_until_the_generation_limit() -> None:
    pings = [step for _ in range(4) for step in (Wait(10), ModelAlive())]
    world = TurnWorld([ModelAlive(), *pings, "Text at last"])
    async with world.running():
        result = await world.answer(within_s=50)

    assert result.status == "completed"


@pytest.mark.parametrize(
    ("script", "code", "partial", "by_s"),
    [
        ([ModelAlive(), "Text", Forever()], "model_timeout", True, 17),
        ([*[step for _ in range(9) for step in ("x", Wait(6))]], "deadline_exceeded", True, 47),
        (
            [*[step for _ in range(9) for step in (ModelAlive(), Wait(6))]],
            "deadline_exceeded",
            False,
            47,
        ),
    ],
)
@pytest.mark.case("B-24")
async def test_silence_and_endless_calls_end_in_a_stated_time(
    script: list[object], code: str, partial: bool, by_s: float
) -> None:
    world = TurnWorld(script)  # type: ignore[arg-type]
    async with world.running():
        await world.answer(within_s=by_s)

    end = only(world.frames(), ResponseFailed)
    assert (end.code, end.partial) == (code, partial)
    assert world.model.open_calls == 0


@pytest.mark.case("B-24")
async def test_a_call_without_any_event_is_retried_until_the_first_text_limit() -> None:
    world = TurnWorld([Forever()])
    async with world.running():
        await world.answer(within_s=62)

    assert only(world.frames(), ResponseFailed).code in {"model_timeout", "deadline_exceeded"}
    assert len(world.model.calls) == 3
    assert world.model.open_calls == 0


async def test_an_answer_that_stopped_counts_even_when_its_stream_does_not_end() -> None:
    world = TurnWorld([["Text", ModelStopped("end_turn", Usage())]])
    world.model.scripts[0] = [[TextDelta("Text"), ModelStopped("end_turn", Usage())], Forever()]
    async with world.running():
        result = await world.answer(within_s=3)

    assert result.status == "completed"


async def test_an_answer_that_stopped_counts_even_when_its_stream_then_breaks() -> None:
    world = TurnWorld(
        [[TextDelta("Text"), ModelStopped("end_turn", Usage())], ModelDisconnected("late")]
    )
    async with world.running():
        result = await world.answer(within_s=3)

    assert result.status == "completed"
