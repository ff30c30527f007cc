"""The backstop of every promise about ends: finds unended turns that nobody moves, and moves them.

Each tick takes a bounded number of due entries, looks at their turns in one pipeline, decides, and writes the entries'
next times in one more. Whoever moved an entry acts on it, in a task of its own, so that a slow store or gateway does
not hold up the next tick. An act that fails, or whose process dies, is due again after a reservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import assert_never

from shared.clock import Clock, Randomness
from shared.contracts.identifiers import made_at_ms
from shared.contracts.recovery import DueEntry, DueMove, DueTurn
from shared.errors import ChatError, DependencyUnavailable
from shared.policy.lease_trust import LeaseTrust
from shared.policy.sweeping import (
    Decision,
    DispatchAsNew,
    Expire,
    Fail,
    LookAgain,
    OfferToIntake,
    Remove,
    ResendToOwnQueue,
    SweepLimits,
    TakeOver,
    decide,
    decide_unknown,
    next_look_ms,
)
from shared.ports import DueTurns
from shared.telemetry import Log, Metrics, bind
from shared.turn.redispatch import Redispatch
from shared.turn.swept_ends import SweptEnds

ENTRIES_PER_SET = 64
ACTS_AT_ONCE = 64
_TICK_SPREAD = 0.2
_LATE_AFTER_MS = 2_000
"""More than one tick and one holding of a dead sweeper."""

_log = Log("sweeper")

_Act = DispatchAsNew | OfferToIntake | ResendToOwnQueue | TakeOver | Expire | Fail
_Judged = tuple[DueEntry, DueTurn | None, Decision]


class Sweeper:
    """One per process that sweeps. `sweeper` names it in holdings and reservations."""

    name = "sweeper"

    def __init__(
        self,
        *,
        due: DueTurns,
        redispatch: Redispatch,
        ends: SweptEnds,
        sweeper: str,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        limits: SweepLimits,
        interval_ms: int,
    ) -> None:
        self._due = due
        self._redispatch = redispatch
        self._ends = ends
        self._sweeper = sweeper
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._limits = limits
        self._interval_s = interval_ms / 1000
        # Spread over a third of a lease: sweepers that lost the ledger together do not start together.
        self._trust = LeaseTrust(
            limits.lease_ms, spread_ms=lambda: randomness.uniform(0, limits.lease_ms / 3)
        )
        self._is_away = False
        self._acts: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Sweep until cancelled; acts under way are cut then, and due again for others after a reservation."""
        try:
            while True:
                await self.sweep()
                share = self._randomness.uniform(1 - _TICK_SPREAD, 1)
                await self._clock.sleep(self._interval_s * share)
        finally:
            for act in self._acts:
                act.cancel()
            if self._acts:
                await asyncio.wait(self._acts)

    async def sweep(self) -> None:
        """One tick. Raises nothing that the ledger may answer."""
        try:
            await self._sweep()
        except DependencyUnavailable as error:
            self._trust.lose()
            if not self._is_away:
                self._is_away = True
                _log.warning("sweeper.ledger_away", error_type=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - the backstop must outlive its own bugs
            _log.exception("sweeper.crashed", error)

    async def _sweep(self) -> None:
        if not self._trust.is_earned(self._now_ms()):
            # Holding a set without acting on it would only keep others from it.
            await self._due.ask()
            self._trust.answered(self._now_ms())
            return
        if self._is_away:
            self._is_away = False
            _log.info("sweeper.ledger_back")
        free = ACTS_AT_ONCE - len(self._acts)
        if free <= 0:
            _log.warning("sweeper.busy", acts=len(self._acts))
            return
        now_ms = self._clock.now_ms()
        entries = await self._due.due(sweeper=self._sweeper, now_ms=now_ms, limit=ENTRIES_PER_SET)
        turns = await self._due.look([entry.turn for entry in entries], now_ms)
        self._trust.answered(self._now_ms())
        self._note_lateness(entries, now_ms)
        judged = [
            (entry, turn, self._judge(entry, turn, now_ms))
            for entry, turn in zip(entries, turns, strict=True)
        ]
        await self._settle(_bounded(judged, free), now_ms)

    def _now_ms(self) -> float:
        return self._clock.monotonic_s() * 1000

    def _note_lateness(self, entries: Sequence[DueEntry], now_ms: int) -> None:
        late_ms = max((now_ms - entry.due_at_ms for entry in entries), default=0)
        if late_ms > _LATE_AFTER_MS:
            self._metrics.gauge("SweepLateMs", late_ms)

    def _judge(self, entry: DueEntry, turn: DueTurn | None, now_ms: int) -> Decision:
        if turn is None:
            return decide_unknown(made_at_ms(entry.turn.turn_id), now_ms, self._limits)
        return decide(turn, now_ms, self._limits)

    async def _settle(self, judged: Sequence[_Judged], now_ms: int) -> None:
        moves = [
            DueMove(entry, next_look_ms(turn, decision, now_ms, self._limits))
            for entry, turn, decision in judged
        ]
        moved = await self._due.move(moves)
        for (entry, turn, decision), is_ours in zip(judged, moved, strict=True):
            if turn is None:
                if isinstance(decision, Remove) and is_ours:
                    _log.warning("due.unknown_turn_removed", turn_id=entry.turn.turn_id)
            elif is_ours and not isinstance(decision, Remove | LookAgain):
                act = asyncio.create_task(self._perform(turn, decision), name="sweeper-act")
                self._acts.add(act)
                act.add_done_callback(self._acts.discard)

    async def _perform(self, turn: DueTurn, act: _Act) -> None:
        request = turn.state.request
        with bind(turn_id=request.turn_id, session_id=request.session_id, trace=request.trace):
            try:
                match act:
                    case Expire():
                        await self._ends.expire(turn, act)
                    case Fail():
                        await self._ends.fail(turn, act)
                    case DispatchAsNew() | OfferToIntake() | ResendToOwnQueue() | TakeOver():
                        await self._redispatch.perform(turn, act)
                    case _:
                        assert_never(act)
            except ChatError as error:
                _log.warning("sweeper.act_failed", error_type=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - one damaged turn must not stop the others' rescue
                _log.exception("sweeper.act_crashed", error)


def _bounded(judged: Sequence[_Judged], free: int) -> list[_Judged]:
    """All that needs no act, and the first `free` acts; what is left out stays due."""
    chosen: list[_Judged] = []
    for each in judged:
        is_act = not isinstance(each[2], Remove | LookAgain)
        if is_act and free == 0:
            continue
        free -= is_act
        chosen.append(each)
    return chosen
