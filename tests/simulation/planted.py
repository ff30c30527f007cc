"""Bugs put into the product on purpose, for as long as a test wants to see whether the checker finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import clients.conversation
import clients.reducer
import shared.turn.answering
import tests.fakes.ledger
from clients.reducer import Folded
from shared.contracts.ledger import ClaimRef, Held
from shared.turn.archive import Archive
from shared.turn.evidence import Evidence
from shared.turn.flusher import Flusher
from shared.turn.settlement import Settlement
from shared.turn.sweeper import Sweeper
from shared.turn.writer import TurnWriter
from tests.fakes.ledger import FakeLedger, _ended, _Turn

Patches = list[Any]


def _no_fence() -> Patches:
    """The ledger takes writes of any claim."""

    def check(ledger: FakeLedger, claim: ClaimRef) -> Any:
        turn = ledger._find(claim.turn)
        if turn is None:
            return tests.fakes.ledger.TurnUnknown()
        return turn if turn.outcome is None else _ended(turn)

    def append(ledger: FakeLedger, append: Any, now_ms: int) -> Any:
        turn = ledger._check(append.claim)
        if not isinstance(turn, _Turn):
            return turn
        turn.log.extend(append.frames)
        turn.last_seq = len(turn.log) - 1
        turn.lease_until_ms = now_ms + ledger._lease_ms
        return tests.fakes.ledger._held(turn)

    return [patch.object(FakeLedger, "_check", check), patch.object(FakeLedger, "_append", append)]


def _no_seq_check() -> Patches:
    """The client applies every frame of the current attempt, in the order of arrival."""

    def fold(turn: Any, frame: Any, now_ms: int) -> Folded:
        if turn.is_ended or (0 < frame.attempt < turn.attempt):
            return Folded(turn)
        if frame.attempt > turn.attempt:
            turn = clients.reducer._restart(turn, frame.attempt)
        applied = replace(clients.reducer._apply(turn, frame), last_seq=frame.seq)
        return clients.reducer._settle(applied)

    return [patch.object(clients.conversation, "fold_frame", fold)]


def _end_before_store() -> Patches:
    """The turn is ended, and its message deleted, before the answer is stored."""
    put = Archive.put

    async def complete(
        self: Settlement, writer: TurnWriter, ending: Any, facts: Any, stopwatch: Any
    ) -> Any:
        timings = stopwatch.timings()
        usage = ending.usage
        stored = self._item(writer, "completed", ending.stop_reason, facts, usage, timings)
        terminal = shared.turn.settlement.completed_frame(
            writer.request.turn_id, writer.text, ending, facts, timings
        )
        result = await self._close(writer, terminal, "completed", self._window(writer, facts))
        await put(self._archive, stored)
        return result

    return [patch.object(Settlement, "_complete", complete)]


def _compareless_unfollow() -> Patches:
    """A closing connection takes every follower of the turn along."""

    def remove(turn: _Turn, follower: Any, now_ms: int) -> None:
        if turn.outcome is None and turn.followers:
            turn.followers.clear()
            turn.readerless_since_ms = now_ms

    return [patch.object(tests.fakes.ledger, "_remove_follower", remove)]


def _retry_after_text() -> Patches:
    """A model call that broke after visible text is tried again."""
    decide = shared.turn.answering.decide_retry

    def careless(error: Exception, **facts: Any) -> Any:
        return decide(error, **{**facts, "is_visible": False})

    return [patch.object(shared.turn.answering, "decide_retry", careless)]


def _push_before_append() -> Patches:
    """Frames are shown before the log has them."""
    append = Flusher._append

    async def hasty(self: Flusher, writers: Any) -> None:
        for writer in writers:
            writer.cut(self._clock.monotonic_s())
            fresh = list(writer.unlogged().frames)
            if fresh:
                self.deliver(writer, fresh)
        await append(self, writers)

    return [patch.object(Flusher, "_append", hasty)]


def _no_sweeper() -> Patches:
    """Nobody looks after turns whose process died."""

    async def sleep_in(self: Sweeper) -> None: ...

    return [patch.object(Sweeper, "sweep", sleep_in)]


def _no_order() -> Patches:
    """Any turn of a session may be claimed."""

    def take(ledger: FakeLedger, session: Any, turn: Any, enters: bool, now_ms: int) -> bool:
        return True

    def accept_as_head(ledger: FakeLedger, session: Any, now_ms: int) -> None:
        return None

    return [
        patch.object(FakeLedger, "_take_head", take),
        patch.object(FakeLedger, "_heal_head", accept_as_head),
    ]


def _deaf_to_stop() -> Patches:
    """A producer does not look at the cancel flag."""
    take = TurnWriter.take

    def deaf(self: TurnWriter, answer: Any, **facts: Any) -> None:
        if isinstance(answer, Held):
            answer = Held(answer.followers, False, answer.readerless_since_ms)
        take(self, answer, **facts)

    return [patch.object(TurnWriter, "take", deaf)]


def _no_evidence() -> Patches:
    """Dead letters are only logged."""

    async def send(self: Evidence, queue: Any, letter: Any) -> bool:
        return False

    return [patch.object(Evidence, "send", send)]


BUGS: dict[str, Callable[[], Patches]] = {
    "no_fence": _no_fence,
    "no_seq_check": _no_seq_check,
    "end_before_store": _end_before_store,
    "compareless_unfollow": _compareless_unfollow,
    "retry_after_text": _retry_after_text,
    "push_before_append": _push_before_append,
    "no_sweeper": _no_sweeper,
    "no_order": _no_order,
    "deaf_to_stop": _deaf_to_stop,
    "no_evidence": _no_evidence,
}


@contextmanager
def planted(bug: str = "") -> Iterator[None]:
    """The product with that bug; as it is when none is named."""
    patches = BUGS[bug]() if bug else []
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
