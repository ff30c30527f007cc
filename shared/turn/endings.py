"""How a claimed turn ends, as values, and the terminal frames of answers."""

from __future__ import annotations

from dataclasses import dataclass

from shared.contracts.identifiers import TurnId
from shared.contracts.recovery import Release
from shared.contracts.server_frames import (
    CancelledBy,
    ResponseCompleted,
    SourceLink,
    TerminalFrame,
    Timings,
    Usage,
)
from shared.contracts.stored_turns import HistoryEntry, StoredTurn
from shared.policy.failed_ends import FailedEnd, end_of_error
from shared.turn.preparation import Prepared
from shared.turn.stored_replay import stored_terminal, text_digest
from shared.turn.terminal_frames import TerminalMaker


@dataclass(frozen=True)
class Completed:
    """A whole answer stands in the writer."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class Failed:
    """No answer; `error` is the cause, None where the turn's own limit or the model's own end was."""

    end: FailedEnd
    error: Exception | None = None


@dataclass(frozen=True)
class Cancelled:
    """Stopped before the answer was complete."""

    by: CancelledBy


@dataclass(frozen=True)
class AlreadyAnswered:
    """An earlier attempt stored an answer and died before it could say so."""

    stored: StoredTurn


@dataclass(frozen=True)
class Postponed:
    """To be tried again by another worker, later; `release` tells whether this try counts."""

    delay_ms: int
    release: Release = "postponed"


@dataclass(frozen=True)
class Superseded:
    """Somebody else's turn now: nothing more is written."""


Ending = Completed | Failed | Cancelled | AlreadyAnswered | Postponed | Superseded


@dataclass(frozen=True, kw_only=True)
class AnswerFacts:
    """What is known of the answer besides its text."""

    intent: str
    model: str
    sources: tuple[SourceLink, ...]
    recalled: tuple[HistoryEntry, ...] | None
    """The turns before it, None when memory was not asked."""


NO_FACTS = AnswerFacts(intent="general", model="", sources=(), recalled=None)


def failed(error: Exception, *, retry_after_ms: int | None = None) -> Failed:
    """The ending that `error` leads to, with the error as its evidence."""
    return Failed(end_of_error(error, retry_after_ms=retry_after_ms), error)


def facts_of(prepared: Prepared) -> AnswerFacts:
    """The facts of a prepared turn."""
    return AnswerFacts(
        intent=prepared.intent,
        model=prepared.prompt.model,
        sources=prepared.sources,
        recalled=prepared.recalled,
    )


def completed_frame(
    turn_id: TurnId, text: str, ending: Completed, facts: AnswerFacts, timings: Timings
) -> TerminalMaker:
    """`chat.response.completed` for `text`."""
    digest = text_digest(text)

    def make(attempt: int, seq: int) -> TerminalFrame:
        return ResponseCompleted(
            turn_id=turn_id,
            attempt=attempt,
            seq=seq,
            stop_reason=ending.stop_reason,
            length=len(text),
            sha256=digest,
            usage=ending.usage,
            timings=timings,
            sources=facts.sources,
        )

    return make


def answered_frame(stored: StoredTurn) -> TerminalMaker:
    """The terminal frame of a stored turn."""

    def make(attempt: int, seq: int) -> TerminalFrame:
        return stored_terminal(stored, attempt=attempt, seq=seq)

    return make
