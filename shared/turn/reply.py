"""The reply as a pure fold over the model's events, and what its end means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, TextDelta
from shared.contracts.server_frames import Usage

#: Stop reasons that end an answer; every other one, known or not, means there is none.
ANSWERED = frozenset({"end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded"})


@dataclass(frozen=True)
class Reply:
    """The reply so far. Text is visible once it holds more than white space; until then nothing is shown."""

    text: str = ""
    is_visible: bool = False
    stopped: ModelStopped | None = None

    @property
    def shown(self) -> str:
        """The text that readers have or will get."""
        return self.text if self.is_visible else ""


@dataclass(frozen=True)
class Answered:
    """A whole answer."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class Declined:
    """The provider ended the reply on purpose, without an answer: never retried."""

    stop_reason: str


@dataclass(frozen=True)
class CutOff:
    """The stream ended without saying why."""


Conclusion = Answered | Declined | CutOff


def fold(reply: Reply, events: Sequence[ModelEvent]) -> Reply:
    """The reply after `events`; the input is not changed. Text after the stop does not count."""
    pieces: list[str] = []
    stopped = reply.stopped
    for event in events:
        match event:
            case TextDelta(text):
                if stopped is None:
                    pieces.append(text)
            case ModelStopped():
                stopped = stopped or event
            case ModelAlive():
                pass
            case _:
                assert_never(event)
    if not pieces:
        return reply if stopped is reply.stopped else Reply(reply.text, reply.is_visible, stopped)
    fresh = "".join(pieces)
    return Reply(reply.text + fresh, reply.is_visible or bool(fresh.strip()), stopped)


def fresh_text(before: Reply, after: Reply) -> str:
    """The text to show now that `before` became `after`, white space that was held back included."""
    return after.shown[len(before.shown) :]


def conclude(reply: Reply) -> Conclusion:
    """What the end of the stream means."""
    if reply.stopped is None:
        return CutOff()
    if reply.stopped.stop_reason in ANSWERED and reply.is_visible:
        return Answered(reply.stopped.stop_reason, reply.stopped.usage)
    return Declined(reply.stopped.stop_reason)
