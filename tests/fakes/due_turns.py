"""The in-memory twin of the due index, over the fake ledger's entries; it passes tests/contract/test_due_turns.py."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from shared.clock import Clock
from shared.contracts.identifiers import TurnRef
from shared.contracts.recovery import DueEntry, DueMove, DueTurn, ReservationKind
from tests.fakes.ledger import FakeLedger

_SETS = 16


class FakeDueTurns:
    """DueTurns. `holders` says which sweeper holds a set, until when (epoch ms)."""

    def __init__(self, ledger: FakeLedger, clock: Clock, *, held_ms: int = 1_500) -> None:
        self._ledger = ledger
        self._clock = clock
        self._held_ms = held_ms
        self.holders: dict[int, tuple[str, int]] = {}

    async def ask(self) -> None:
        self._ledger._ask("ask")

    async def due(self, *, sweeper: str, now_ms: int, limit: int) -> Sequence[DueEntry]:
        self._ledger._ask("due")
        held = {number for number in range(_SETS) if self._hold(number, sweeper)}
        taken = dict.fromkeys(held, 0)
        entries = []
        for turn, at_ms in sorted(self._ledger.due_at_ms.items(), key=lambda item: item[1]):
            number = zlib.crc32(turn.turn_id.encode()) % _SETS
            if number in held and at_ms <= now_ms and taken[number] < limit:
                taken[number] += 1
                entries.append(DueEntry(turn, at_ms))
        return entries

    async def look(self, turns: Sequence[TurnRef], now_ms: int) -> Sequence[DueTurn | None]:
        if turns:
            self._ledger._ask("look")
        return [self._look(turn, now_ms) for turn in turns]

    async def move(self, moves: Sequence[DueMove]) -> Sequence[bool]:
        if moves:
            self._ledger._ask("move")
        return [self._move(move) for move in moves]

    async def reserve(
        self,
        turn: TurnRef,
        *,
        sweeper: str,
        attempt: int,
        dispatches: int,
        kind: ReservationKind,
        until_ms: int,
        now_ms: int,
    ) -> bool:
        self._ledger._ask("reserve")
        held = self._ledger._find(turn)
        if held is None or held.outcome is not None:
            return False
        if held.attempt != attempt or held.lease_until_ms > now_ms:
            return False
        recovery = held.recovery
        is_own = held.reserved_by == sweeper and recovery.reserved_until_ms == until_ms
        if recovery.dispatches == dispatches + 1 and is_own:
            if kind == "offer":
                held.recovery = msgspec.structs.replace(recovery, is_offered=True)
            return True
        if recovery.dispatches != dispatches or recovery.reserved_until_ms > now_ms:
            return False
        held.reserved_by = sweeper
        held.recovery = msgspec.structs.replace(
            recovery,
            dispatches=dispatches + 1,
            reserved_until_ms=until_ms,
            first_dispatched_at_ms=recovery.first_dispatched_at_ms or now_ms,
            is_offered=recovery.is_offered or kind == "offer",
            is_delivery=recovery.is_delivery or kind == "delivery",
        )
        return True

    def _hold(self, number: int, sweeper: str) -> bool:
        now_ms = self._clock.now_ms()
        holder, until_ms = self.holders.get(number, ("", 0))
        if until_ms <= now_ms:
            self.holders[number] = (sweeper, now_ms + self._held_ms)
            return True
        return holder == sweeper

    def _look(self, ref: TurnRef, now_ms: int) -> DueTurn | None:
        turn = self._ledger._find(ref)
        if turn is None:
            return None
        session = self._ledger._session(ref.session)
        if ref.turn_id in session.waiting:
            self._ledger._heal_head(session, now_ms)
        attempts = turn.earlier_attempts
        if turn.status == "running":
            attempts = (*attempts, turn.present_attempt)
        state = self._ledger._state(session, turn)
        return DueTurn(state=state, recovery=turn.recovery, attempts=attempts)

    def _move(self, move: DueMove) -> bool:
        entry = move.entry
        if self._ledger.due_at_ms.get(entry.turn) != entry.due_at_ms:
            return False
        if move.at_ms is None:
            del self._ledger.due_at_ms[entry.turn]
        else:
            self._ledger.due_at_ms[entry.turn] = move.at_ms
        return True
