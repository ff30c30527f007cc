"""The one Redis of a run: the ledger's twin with every index, losing its last writes when it fails over."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import Any

from shared.contracts.identifiers import TurnId, TurnRef
from shared.contracts.load import FleetLoad
from tests.fakes.due_turns import FakeDueTurns
from tests.fakes.ledger import FakeLedger
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.registry import FakeRegistry
from tests.simulation.loop import SimClock

_Snapshot = dict[str, Any]


class SimRedis:
    """The data of every key. Each process gets its own clients, since an adapter remembers what it asked when."""

    def __init__(self, clock: SimClock) -> None:
        self.registry = FakeRegistry(clock)
        self.ledger = FakeLedger(clock, registry=self.registry)
        self.due = FakeDueTurns(self.ledger, clock)
        self.board = SimLoadBoard(clock, self.ledger)
        self._snapshot: _Snapshot | None = None

    def client(self) -> FakeLedger:
        """A process's own adapters over the shared data."""
        return copy.copy(self.ledger)

    def replicate(self) -> None:
        """From here on every write is lost at the next failover."""
        self._snapshot = {
            "sessions": copy_data(self.ledger._sessions),
            "burst": dict(self.ledger.burst_waiting),
            "due": dict(self.ledger.due_at_ms),
            "entries": dict(self.registry._entries),
            "leases": dict(self.registry._leases),
            "holders": dict(self.due.holders),
        }

    def fail_over(self) -> set[TurnRef]:
        """Go on with the replica's data; answers the turns that are not as they were."""
        snapshot = self._snapshot
        assert snapshot is not None
        before = _turns(self.ledger)
        for data, name in (
            (self.ledger._sessions, "sessions"),
            (self.ledger.burst_waiting, "burst"),
            (self.ledger.due_at_ms, "due"),
            (self.registry._entries, "entries"),
            (self.registry._leases, "leases"),
            (self.due.holders, "holders"),
        ):
            data.clear()  # type: ignore[attr-defined]
            data.update(snapshot[name])  # type: ignore[attr-defined]
        after = _turns(self.ledger)
        return {ref for ref in before.keys() | after.keys() if before.get(ref) != after.get(ref)}


class SimLoadBoard(FakeLoadBoard):
    """The board's burst counters come from the ledger, as in Redis."""

    def __init__(self, clock: SimClock, ledger: FakeLedger) -> None:
        super().__init__(clock)
        self._ledger = ledger

    async def read(self) -> FleetLoad:
        self.queued_at_ms = {ref.turn_id: at for ref, at in self._ledger.burst_waiting.items()}
        self.entered = self._ledger.burst_entered[0]
        return await super().read()


def copy_data(value: Any) -> Any:
    """A copy of containers and records; what cannot change is shared."""
    if isinstance(value, dict):
        return {key: copy_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_data(item) for item in value]
    if isinstance(value, set):
        return set(value)
    if is_dataclass(value) and not isinstance(value, type) and not _is_frozen(value):
        copied = copy.copy(value)
        for each in fields(value):
            setattr(copied, each.name, copy_data(getattr(value, each.name)))
        return copied
    return value


def _is_frozen(value: Any) -> bool:
    return bool(type(value).__dataclass_params__.frozen)


def _turns(ledger: FakeLedger) -> dict[TurnRef, tuple[Any, ...]]:
    known: dict[TurnRef, tuple[Any, ...]] = {}
    for ref, session in ledger._sessions.items():
        for number, turn in session.turns.items():
            known[TurnRef(ref, TurnId(number))] = (
                turn.attempt,
                turn.nonce,
                turn.last_seq,
                turn.outcome,
                turn.cancel_requested,
                session.head == number,
                number in session.waiting,
            )
    return known
