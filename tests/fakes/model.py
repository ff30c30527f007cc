"""A language model that says what the test scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, Prompt, TextDelta
from shared.contracts.server_frames import Usage
from shared.errors import ModelDisconnected


@dataclass(frozen=True)
class Wait:
    """The model is silent for so long."""

    duration_s: float


class Forever:
    """The model never says anything again."""


class CutOff:
    """The stream ends without a stop reason."""


Step = str | ModelEvent | Sequence[ModelEvent] | Wait | Forever | CutOff | Exception
END = ModelStopped("end_turn", Usage(input_tokens=7, output_tokens=5))


@dataclass
class FakeCall:
    """One call; `ended` is running, completed, failed or closed (by us)."""

    prompt: Prompt
    started_at_ms: int
    ended: str = "running"
    ended_at_ms: int = 0
    said: int = 0  # steps given out


class FakeModel:
    """ChatModel. Each call plays the next script, the last one again and again; a script without an end stops well."""

    def __init__(self, clock: Clock, *scripts: Sequence[Step]) -> None:
        self._clock = clock
        self.scripts = list(scripts) or [["Hello"]]
        self.calls: list[FakeCall] = []

    @property
    def open_calls(self) -> int:
        """Calls whose connection is still open."""
        return sum(call.ended == "running" for call in self.calls)

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[AsyncIterator[Sequence[ModelEvent]]]:
        script = self.scripts[min(len(self.calls), len(self.scripts) - 1)]
        call = FakeCall(prompt, self._clock.now_ms())
        self.calls.append(call)
        try:
            yield self._play(call, script)
        finally:
            if call.ended == "running":
                call.ended = "closed"
            call.ended_at_ms = self._clock.now_ms()

    async def _play(
        self, call: FakeCall, script: Sequence[Step]
    ) -> AsyncIterator[Sequence[ModelEvent]]:
        for step in script:
            if isinstance(step, Exception):
                call.ended = "failed"
                raise step
            if isinstance(step, CutOff):
                call.ended = "failed"
                raise ModelDisconnected("the stream ended without a stop reason")
            if isinstance(step, Forever):
                await asyncio.Event().wait()
            elif isinstance(step, Wait):
                await self._clock.sleep(step.duration_s)
            else:
                call.said += 1
                await asyncio.sleep(0)
                yield _events(step)
                if isinstance(step, ModelStopped):
                    call.ended = "completed"
                    return
        yield [END]
        call.ended = "completed"


def _events(step: str | ModelEvent | Sequence[ModelEvent]) -> Sequence[ModelEvent]:
    if isinstance(step, str):
        return [TextDelta(step)]
    if isinstance(step, TextDelta | ModelAlive | ModelStopped):
        return [step]
    return step
