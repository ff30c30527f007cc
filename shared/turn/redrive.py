"""Running a dead letter again: once, quietly, and with a trail.

Order: reopen in the ledger, send to the background queue, note it. Whoever dies in between is harmless: the sweeper
sends a reopened turn, and a repeat of the redrive finds it waiting and only adds what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from shared.clock import Clock
from shared.contracts.dead_turns import DeadTurn, Step
from shared.contracts.ledger import NotReopened, Reopened
from shared.contracts.turns import TurnRequest, TurnStatus
from shared.policy.triage import REDRIVES_PER_TURN
from shared.ports import DeadTurns, SessionQueue, TurnQueue, TurnRevival, TurnStore
from shared.telemetry import Log
from shared.turn.markers import is_answer

REASON: Literal["redrive"] = "redrive"
"""Of the queue message; also how a repeat recognises a turn that was reopened and perhaps never sent."""

Outcome = Literal[
    "redriven",
    "already_redriven",
    "answered",
    "alive",
    "ended",
    "discarded",
    "no_turn",
    "too_often",
    "unknown",
]
_log = Log("redrive")


@dataclass(frozen=True)
class Redriven:
    """What became of one redrive: only `redriven` changed anything. `status` is the turn's, where known."""

    turn_id: str
    outcome: Outcome
    status: TurnStatus | None = None


class Redrive:
    """Redrives dead turns, one call each."""

    def __init__(
        self,
        *,
        dead_turns: DeadTurns,
        revival: TurnRevival,
        sessions: SessionQueue,
        store: TurnStore,
        queue: TurnQueue,
        clock: Clock,
    ) -> None:
        self._dead_turns = dead_turns
        self._revival = revival
        self._sessions = sessions
        self._store = store
        self._queue = queue
        self._clock = clock

    async def redrive(self, turn_id: str, *, by: str) -> Redriven:
        """Run the turn again unless it lives, ended well, or was redriven since it died.

        Raises DependencyUnavailable; the same call again is safe and completes what was begun.
        """
        dead = await self._dead_turns.find(turn_id)
        if dead is None:
            return Redriven(turn_id, "unknown")
        if dead.letter.turn is None:
            return Redriven(turn_id, "no_turn")
        if dead.state == "discarded":
            return Redriven(turn_id, "discarded")
        if is_answer(await self._store.get(dead.letter.turn.ref)):
            return Redriven(turn_id, "answered", "completed")
        if dead.state == "redriven":
            return Redriven(turn_id, "already_redriven", await self.status(dead))
        if dead.redrives >= REDRIVES_PER_TURN:
            return Redriven(turn_id, "too_often")
        return await self._reopen(dead, dead.letter.turn, by)

    async def discard(self, turn_id: str, *, by: str, why: str) -> bool:
        """Note that nothing is to be done about the turn; False when it is unknown or no longer open."""
        dead = await self._dead_turns.find(turn_id)
        if dead is None or dead.state != "open":
            return False
        now_ms = self._clock.now_ms()
        step = Step(kind="discarded", by=by, at_ms=now_ms, life_ms=dead.life_ms, note=why)
        await self._dead_turns.note(turn_id, step)
        _log.info("dead_turn.discarded", turn_id=turn_id, by=by)
        return True

    async def status(self, dead: DeadTurn) -> TurnStatus | None:
        """The turn's state in the ledger, None when that has forgotten it."""
        if dead.letter.turn is None:
            return None
        state = await self._sessions.state(dead.letter.turn.ref)
        return None if state is None else state.status

    async def _reopen(self, dead: DeadTurn, request: TurnRequest, by: str) -> Redriven:
        now_ms = self._clock.now_ms()
        message = msgspec.structs.replace(
            request,
            connection_id=None,
            detached=True,
            priority="low",
            # Its clocks start anew, with a day of the low priority's limit; never before those of its last life.
            accepted_at_ms=max(now_ms, dead.life_ms + 1),
            ready_at_ms=0,
            limit_at_ms=0,
            enqueued_at_ms=now_ms,
            attempt_hint=dead.last_attempt,
            reason=REASON,
        )
        match await self._revival.reopen(message, now_ms=now_ms):
            case Reopened(attempt):
                message = msgspec.structs.replace(message, attempt_hint=attempt)
            case NotReopened(status):
                state = await self._sessions.state(request.ref)
                is_half_done = state is not None and state.request.reason == REASON
                if status != "waiting" or not is_half_done:
                    is_alive = status in ("waiting", "running")
                    return Redriven(request.turn_id, "alive" if is_alive else "ended", status)
        await self._queue.send("background", message)
        await self._sessions.mark_placed(request.ref, "queue", now_ms)
        step = Step(kind="redriven", by=by, at_ms=now_ms, life_ms=dead.life_ms)
        await self._dead_turns.note(request.turn_id, step)
        _log.info("dead_turn.redriven", turn_id=request.turn_id, by=by, redrives=dead.redrives + 1)
        return Redriven(request.turn_id, "redriven", "waiting")
