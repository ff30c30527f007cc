"""Rates that all processes share, in memory."""

from __future__ import annotations

import math

from shared.contracts.allowances import Allowance, AllowanceKind, Rate
from shared.contracts.identifiers import MessageId, SessionRef
from tests.fakes.ledger import FakeLedger


class FakeAllowances:
    """Passes the same suite as Redis; the ledger is asked for known messages and says whether anybody can be asked."""

    def __init__(self, ledger: FakeLedger) -> None:
        self._ledger = ledger
        self._even_at_ms: dict[tuple[AllowanceKind, str, str], float] = {}

    async def take(
        self,
        kind: AllowanceKind,
        rate: Rate,
        wanted: int,
        *,
        session: SessionRef,
        message_id: MessageId,
        now_ms: int,
    ) -> Allowance:
        known = await self._ledger.find_message(session, message_id)
        key = (kind, session.tenant, session.user if kind == "user_turns" else "")
        every_ms = 60_000 / rate.per_min
        even = max(now_ms, self._even_at_ms.get(key, 0.0))
        free = math.floor((now_ms + rate.burst * every_ms - even) / every_ms)
        granted = min(wanted, free)
        if granted < 1:
            wait_ms = math.ceil(even + every_ms - rate.burst * every_ms - now_ms)
            return Allowance(granted=0, wait_ms=wait_ms, known=known)
        self._even_at_ms[key] = even + granted * every_ms
        return Allowance(granted=granted, known=known)
