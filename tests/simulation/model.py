"""The model provider in virtual time, with the faults of PROTOCOL §8; every call says something that no other says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, Prompt, TextDelta
from shared.contracts.server_frames import Usage
from shared.errors import (
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
)
from tests.simulation.history import History
from tests.simulation.loop import Process, VirtualLoop

FAULTS = (
    "overloaded",
    "overloaded_after",
    "rate_limit",
    "rate_limit_after",
    "abort_after",
    "end_after",
    "stall_after",
    "ping_only",
    "refusal",
    "max_tokens",
    "empty",
    "slow_start",
    "invalid_request",
    "bug",
)


@dataclass(frozen=True)
class Script:
    """What the model does with one message: `times` calls fail, later ones succeed."""

    deltas: int = 6
    ttft_s: float = 0.3
    pace_s: float = 0.1
    fault: str = ""
    after: int = 0
    times: int = 0
    retry_after_ms: int | None = None


@dataclass
class Call:
    """One call as the provider saw it. `said` is what it sent in full or in part."""

    number: int
    message: str
    history: tuple[tuple[str, str], ...]
    process: Process
    opened_at_s: float
    said: list[str] = field(default_factory=list)
    closed_at_s: float | None = None
    ended: str = "running"


class SimModel:
    """All calls of a run; `client` is the ChatModel of one process."""

    def __init__(self, loop: VirtualLoop, history: History) -> None:
        self.loop = loop
        self.history = history
        self.scripts: dict[str, Script] = {}
        self.calls: list[Call] = []
        self.on_open: Callable[[Call], None] = lambda call: None

    def client(self, process: Process) -> _Client:
        process.on_death.append(lambda: self._cut(process))
        return _Client(self, process)

    def open(self, prompt: Prompt, process: Process) -> Call:
        *earlier, last = [message.content for message in prompt.messages]
        history = tuple(
            (str(said), str(answered))
            for said, answered in zip(earlier[::2], earlier[1::2], strict=True)
        )
        message = str(last[-1]["text"])  # type: ignore[index]
        call = Call(len(self.calls) + 1, message, history, process, self.loop.time())
        self.calls.append(call)
        self.history.note(process.name, "model:open", f"call {call.number} for {message!r}")
        self.on_open(call)
        return call

    def close(self, call: Call) -> None:
        if call.closed_at_s is None:
            call.closed_at_s = self.loop.time()
            if call.ended == "running":
                call.ended = "closed"
            self.history.note(call.process.name, f"model:{call.ended}", f"call {call.number}")

    def tries_of(self, message: str) -> int:
        return sum(call.message == message for call in self.calls)

    def _cut(self, process: Process) -> None:
        for call in self.calls:
            if call.process is process:
                self.close(call)


class _Client:
    def __init__(self, model: SimModel, process: Process) -> None:
        self._model = model
        self._process = process

    def stream(self, prompt: Prompt) -> _Stream:
        return _Stream(self._model, prompt, self._process)


class _Stream:
    """One call: a context manager and the iterator of its reads."""

    def __init__(self, model: SimModel, prompt: Prompt, process: Process) -> None:
        self._model = model
        self._prompt = prompt
        self._process = process
        self._step = 0

    async def __aenter__(self) -> _Stream:
        self._call = self._model.open(self._prompt, self._process)
        script = self._model.scripts.get(self._call.message, Script())
        is_failing = self._model.tries_of(self._call.message) <= script.times
        self._fault = script.fault if is_failing or not script.times else ""
        self._script = script
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._model.close(self._call)

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> Sequence[ModelEvent]:
        if self._call.ended != "running":
            raise StopAsyncIteration
        step, self._step = self._step, self._step + 1
        script, fault = self._script, self._fault
        if step == 0:
            await asyncio.sleep(script.ttft_s + (25.0 if fault == "slow_start" else 0.0))
            self._refuse(fault)
            return [ModelAlive()]
        await asyncio.sleep(script.pace_s)
        said = len(self._call.said)
        if fault == "ping_only":
            await asyncio.sleep(5)
            return [ModelAlive()]
        if fault.endswith("_after") and said >= script.after:
            return await self._break(fault)
        if fault in ("refusal", "empty", "max_tokens") and said >= script.after:
            stops = {"refusal": "refusal", "max_tokens": "max_tokens"}
            return self._stop(stops.get(fault, "end_turn"))
        if said < script.deltas:
            text = f"<{self._call.number}:{said}>" + "é" * (said % 3)
            self._call.said.append(text)
            return [TextDelta(text)]
        return self._stop("end_turn")

    def _refuse(self, fault: str) -> None:
        hint_ms = self._script.retry_after_ms
        errors: dict[str, Exception] = {
            "overloaded": ModelOverloaded("scripted", retry_after_ms=hint_ms),
            "rate_limit": ModelRateLimited("scripted", retry_after_ms=hint_ms),
            "invalid_request": ModelRejected("scripted"),
            "bug": RuntimeError("scripted"),
        }
        if fault in errors:
            self._call.ended = "fault"
            raise errors[fault]

    async def _break(self, fault: str) -> Sequence[ModelEvent]:
        if fault == "stall_after":
            await asyncio.sleep(16)
            self._call.ended = "fault"
            raise ModelTimeout("scripted silence")
        self._call.ended = "fault"
        if fault == "overloaded_after":
            raise ModelOverloaded("scripted")
        if fault == "rate_limit_after":
            raise ModelRateLimited("scripted")
        raise ModelDisconnected("scripted")

    def _stop(self, reason: str) -> Sequence[ModelEvent]:
        self._call.ended = "completed"
        return [ModelStopped(reason, Usage(input_tokens=7, output_tokens=len(self._call.said)))]
