"""The in-memory twin of the table of dead turns; it passes tests/contract/test_dead_turns.py."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shared.contracts.dead_turns import DeadTurn, DeadTurnBrief, Kept, Step
from shared.errors import DependencyUnavailable


class FakeDeadTurns:
    """DeadTurns over a list. `unavailable` makes every call raise; `failing_notes` counts down notes that do."""

    def __init__(self) -> None:
        self.deaths: list[DeadTurn] = []
        self.unavailable = False
        self.failing_notes = 0
        self._seen: set[str] = set()

    async def keep(self, turn: DeadTurn) -> Kept:
        self._ask()
        is_new_fingerprint = turn.letter.fingerprint not in self._seen
        self._seen.add(turn.letter.fingerprint)
        latest = self._latest(turn.id)
        if latest is not None:
            if _rank(latest) >= _rank(turn):
                return Kept(False, is_new_fingerprint)
            turn = msgspec.structs.replace(turn, trail=latest.trail)
            if _rank(latest)[0] == _rank(turn)[0]:
                self.deaths.remove(latest)
        self.deaths.append(turn)
        return Kept(True, is_new_fingerprint)

    async def find(self, turn_id: str) -> DeadTurn | None:
        self._ask()
        return self._latest(turn_id)

    async def fingerprints(self) -> Sequence[str]:
        self._ask()
        return sorted(self._seen)

    async def of_fingerprint(
        self, fingerprint: str, *, since_ms: int = 0, limit: int = 10_000
    ) -> Sequence[DeadTurnBrief]:
        self._ask()
        found = [
            turn
            for turn in sorted(self.deaths, key=lambda turn: (turn.letter.dead_at_ms, turn.id))
            if turn.letter.fingerprint == fingerprint and turn.letter.dead_at_ms >= since_ms
        ]
        return [brief_of(turn) for turn in found[:limit]]

    async def note(self, turn_id: str, step: Step) -> None:
        self._ask()
        latest = self._latest(turn_id)
        if self.failing_notes:
            self.failing_notes -= 1
            raise DependencyUnavailable("the fake table refused this note")
        if latest is None:
            raise DependencyUnavailable(f"no dead turn {turn_id}")
        noted = msgspec.structs.replace(latest, trail=(*latest.trail, step))
        self.deaths[self.deaths.index(latest)] = noted

    def _latest(self, turn_id: str) -> DeadTurn | None:
        return max((each for each in self.deaths if each.id == turn_id), key=_rank, default=None)

    def _ask(self) -> None:
        if self.unavailable:
            raise DependencyUnavailable("the fake table was told to be away")


def brief_of(turn: DeadTurn) -> DeadTurnBrief:
    """The turn without its letter."""
    return DeadTurnBrief(
        id=turn.id,
        fingerprint=turn.letter.fingerprint,
        klass=turn.letter.klass,
        verdict=turn.verdict,
        reason=turn.reason,
        state=turn.state,
        queue=turn.queue,
        error_type=turn.letter.error.type,
        dead_at_ms=turn.letter.dead_at_ms,
    )


def _rank(turn: DeadTurn) -> tuple[int, int, bool]:
    return turn.life_ms, turn.last_attempt, turn.origin == "letter"
