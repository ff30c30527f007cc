"""The last step in the ledger: remaining text, terminal frame, end and next head together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from shared.clock import Clock, Randomness
from shared.contracts.ledger import (
    Append,
    Fenced,
    FinishAnswer,
    Finished,
    LogGap,
    TurnEnded,
    TurnUnknown,
)
from shared.contracts.recovery import Release
from shared.contracts.turns import EndStatus, TurnRequest
from shared.errors import ChatError, DependencyUnavailable
from shared.ports import TurnClaims
from shared.telemetry import Log
from shared.turn.flusher import Flusher
from shared.turn.patience import Patience
from shared.turn.terminal_frames import TerminalMaker
from shared.turn.writer import TurnWriter

_log = Log("closing")
_FIRST_WAIT_MS = 100
_LONGEST_WAIT_MS = 1_000
_REPAIRS = 8
"""So often in a row the ledger may lose frames or the claim before it counts as away."""


@dataclass(frozen=True)
class Closed:
    """`ended` = by us; `superseded` = somebody else's turn; `not_settled` = the ledger took no end."""

    outcome: Literal["ended", "superseded", "not_settled"]
    next_head: TurnRequest | None = None


_SUPERSEDED = Closed("superseded")


class Closing:
    """Ends claimed turns."""

    def __init__(
        self,
        claims: TurnClaims,
        flusher: Flusher,
        clock: Clock,
        randomness: Randomness,
        *,
        patience_ms: int,
    ) -> None:
        self._claims = claims
        self._flusher = flusher
        self._clock = clock
        self._patience = Patience(
            work="end",
            clock=clock,
            randomness=randomness,
            first_wait_ms=_FIRST_WAIT_MS,
            longest_wait_ms=_LONGEST_WAIT_MS,
        )
        self._patience_ms = patience_ms

    async def close(
        self,
        writer: TurnWriter,
        terminal: TerminalMaker,
        *,
        status: EndStatus,
        history: bytes | None,
    ) -> Closed:
        """End the turn; on an answer that got lost the same bytes are sent again.

        What the ledger lost is written again from memory, under a new claim if need be. Readers get the frames that
        they lack once the ledger has them.
        """
        await writer.quiesce()
        writer.cut(self._clock.monotonic_s())

        async def end() -> Closed:
            return await self._end(writer, terminal, status, history)

        try:
            return await self._patience.until_done(end, limit_ms=self._patience_ms)
        except ChatError as error:
            _log.error("turn.not_ended", error_type=type(error).__name__)
            return Closed("not_settled")

    async def release(self, writer: TurnWriter, release: Release, delay_ms: int = 0) -> None:
        """Give the claim up alive. When the ledger cannot be asked the lease lapses, as after a crash."""
        now_ms = self._clock.now_ms()
        try:
            await self._claims.release(
                writer.claim, release=release, due_at_ms=now_ms + delay_ms, now_ms=now_ms
            )
        except ChatError as error:
            _log.warning("claim.not_released", release=release, error_type=type(error).__name__)

    async def _end(
        self, writer: TurnWriter, terminal: TerminalMaker, status: EndStatus, history: bytes | None
    ) -> Closed:
        for _ in range(_REPAIRS):
            if writer.is_lost and not await self._flusher.reclaim(writer):
                return _SUPERSEDED
            closed = await self._try(writer, writer.seal(terminal), status, history)
            if closed is not None:
                return closed
        raise DependencyUnavailable("the ledger loses what it is given")

    async def _try(
        self, writer: TurnWriter, append: Append, status: EndStatus, history: bytes | None
    ) -> Closed | None:
        answer: FinishAnswer = await self._claims.finish(
            append, status=status, history=history, now_ms=self._clock.now_ms()
        )
        match answer:
            case Finished(followers, next_head):
                writer.follow(followers)
                self._flusher.deliver(writer, writer.unpushed_with(append))
                return Closed("ended", next_head)
            case TurnEnded(_, outcome) if outcome == append.frames[-1]:
                # An earlier try of ours whose answer got lost. It popped the next head: the sweeper finds that.
                self._flusher.deliver(writer, writer.unpushed_with(append))
                return Closed("ended")
            case TurnEnded() | Fenced():
                return _SUPERSEDED
            case LogGap(last_seq):
                writer.rewind(last_seq)
            case TurnUnknown():
                writer.is_lost = True
            case _:
                assert_never(answer)
        return None
