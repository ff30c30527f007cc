"""One model call: text into the writer, limits around it, its end as a value."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import assert_never

from shared.clock import Clock
from shared.contracts.model import Prompt
from shared.errors import ModelDisconnected, ModelTimeout, TransientError
from shared.policy.generation_deadline import CallProgress, Overrun, next_deadline
from shared.policy.limits import TurnLimits
from shared.ports import ChatModel
from shared.telemetry import Log
from shared.turn.interruption import Interruption
from shared.turn.reply import Answered, CutOff, Declined, Reply, conclude, fold, fresh_text
from shared.turn.screening import ScreenedReply, Screening
from shared.turn.timings import Stopwatch
from shared.turn.writer import TurnWriter

_log = Log("generation")
_LOOK_EVERY_MS = 1_000.0


@dataclass(frozen=True)
class Overdue:
    """The turn's own limit was reached; another call would not help."""


Generated = Answered | Declined | Overdue


class Generation:
    """Streams replies. Leaving a call, however it ends, closes the provider's connection."""

    def __init__(
        self, model: ChatModel, screening: Screening, clock: Clock, limits: TurnLimits
    ) -> None:
        self._model = model
        self._screening = screening
        self._clock = clock
        self._limits = limits

    async def generate(
        self,
        prompt: Prompt,
        writer: TurnWriter,
        stopwatch: Stopwatch,
        *,
        first_text_by_ms: int | None,
    ) -> Generated:
        """Run one call and write its visible text. `first_text_by_ms` (epoch) bounds the wait for that.

        Raises the ModelX errors, and GuardrailBlocked; what was visible by then is in `writer.text`.
        """
        call = _Call(self._clock, self._limits, self._monotonic_ms_of(first_text_by_ms))
        screened = self._screening.open_reply(prompt, call.limit.interrupt)
        shown = _Shown(screened, writer, stopwatch)
        try:
            generated = await self._call(prompt, shown, call)
            if isinstance(generated, Answered):
                shown.finish()
                await screened.settle()
        finally:
            screened.close()
        return generated

    async def _call(self, prompt: Prompt, shown: _Shown, call: _Call) -> Generated:
        watchdog = asyncio.create_task(call.watch())
        try:
            async with call.limit:
                await self._read(prompt, shown, call)
        except TransientError:
            if call.reply.stopped is None:
                raise
        finally:
            watchdog.cancel()
        shown.reply.check()
        return call.end()

    async def _read(self, prompt: Prompt, shown: _Shown, call: _Call) -> None:
        async with self._model.stream(prompt) as stream:
            async for events in stream:
                before = call.reply
                call.reply = fold(before, events)
                call.heard_at_ms = self._clock.monotonic_s() * 1000
                shown.add(fresh_text(before, call.reply))

    def _monotonic_ms_of(self, epoch_ms: int | None) -> float | None:
        if epoch_ms is None:
            return None
        return self._clock.monotonic_s() * 1000 + (epoch_ms - self._clock.now_ms())


class _Shown:
    """What readers get of one call's reply."""

    def __init__(self, reply: ScreenedReply, writer: TurnWriter, stopwatch: Stopwatch) -> None:
        self.reply = reply
        self._writer = writer
        self._stopwatch = stopwatch

    def add(self, fresh: str) -> None:
        """The model said more."""
        if fresh:
            self._write(self.reply.feed(fresh))

    def finish(self) -> None:
        """The answer is complete."""
        self._write(self.reply.finish())

    def _write(self, text: str) -> None:
        if not text:
            return
        if not self._writer.text:
            self._stopwatch.note_first_text()
            first_text_ms = self._stopwatch.timings().first_token_ms
            _log.info("turn.first_text", first_text_ms=first_text_ms)
        self._writer.write(text)


class _Call:
    """The state of one call, shared by its reader and its watchdog."""

    def __init__(self, clock: Clock, limits: TurnLimits, first_text_by_ms: float | None) -> None:
        self.limit = Interruption()
        self.reply = Reply()
        self.heard_at_ms: float | None = None
        self._clock = clock
        self._limits = limits
        self._started_ms = clock.monotonic_s() * 1000
        self._first_text_by_ms = first_text_by_ms
        self._overrun: Overrun | None = None

    async def watch(self) -> None:
        """Interrupt the call when its next deadline passes. One timer for the call, none per event."""
        while True:
            deadline_ms, overrun = next_deadline(self._progress(), self._limits)
            wait_ms = deadline_ms - self._clock.monotonic_s() * 1000
            if wait_ms <= 0:
                self._overrun = overrun
                self.limit.interrupt()
                return
            # Looked at once a second, as the deadline comes nearer when the reply has stopped.
            await self._clock.sleep(min(wait_ms, _LOOK_EVERY_MS) / 1000)

    def end(self) -> Generated:
        """What the call came to. Raises ModelTimeout or ModelDisconnected when that is an error."""
        conclusion = conclude(self.reply)
        if not isinstance(conclusion, CutOff):
            return conclusion
        match self._overrun:
            case None:
                raise ModelDisconnected("the stream ended without a stop reason")
            case "first_event":
                raise ModelTimeout("no first event")
            case "silence":
                raise ModelTimeout("silence in mid-stream")
            case "first_text" | "generation":
                return Overdue()
            case _:
                assert_never(self._overrun)

    def _progress(self) -> CallProgress:
        return CallProgress(
            started_ms=self._started_ms,
            last_event_ms=self.heard_at_ms,
            is_visible=self.reply.is_visible,
            stopped=self.reply.stopped is not None,
            first_text_by_ms=self._first_text_by_ms,
        )
