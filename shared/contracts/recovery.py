"""What sweepers know of an accepted turn beyond its state: who was asked to run it, and how attempts ended."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.dead_letters import AttemptRecord
from shared.contracts.identifiers import TurnRef
from shared.contracts.ledger import TurnState

Release = Literal["handed_over", "passed_on", "postponed", "throttled"]
"""How a producer gives its claim up alive: to whom a sweeper or its own consumer sends it now, or for a later retry.

`throttled` = postponed before it asked the model anything, so that it does not count among the turn's attempts.
"""
SENT_RELEASES: frozenset[Release] = frozenset({"passed_on", "postponed", "throttled"})
"""The consumer sends the turn to the retry queue itself, so the release is a reservation as well."""
ReservationKind = Literal["dispatch", "offer", "delivery"]
"""`offer` = the one second chance of a queued turn. `delivery` = an answer is stored, the next claim delivers it."""


class DueEntry(msgspec.Struct, frozen=True):
    """One unended turn of the due index and when it wants to be looked at, epoch ms."""

    turn: TurnRef
    due_at_ms: int


class DueMove(msgspec.Struct, frozen=True):
    """A new time for an entry, None = out of the index. Done only while the entry is as it was read."""

    entry: DueEntry
    at_ms: int | None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The turn's rescue so far. Times in epoch ms, 0 = never.

    `tries` counts claims (deliveries of a stored answer left out), `crashes` the attempts before the present one that
    ended without a word. The rest is about the time since the last claim: how that attempt was `released`, from when a
    release wants to be claimed, until when a dispatch keeps others away, how many dispatches there were and when the
    first; whether the second chance was used, and whether the next claim is a delivery.
    """

    tries: int = 0
    crashes: int = 0
    released: Release | None = None
    due_at_ms: int = 0
    reserved_until_ms: int = 0
    dispatches: int = 0
    first_dispatched_at_ms: int = 0
    is_offered: bool = False
    is_delivery: bool = False


class DueTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a sweeper sees it. `attempts` is its history, the present attempt last."""

    state: TurnState
    recovery: Recovery
    attempts: tuple[AttemptRecord, ...] = ()
