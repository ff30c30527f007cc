"""A rate that all processes share, taken in small slices so that most turns cost no question."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from shared.clock import Clock
from shared.contracts.allowances import AllowanceKind, Rate
from shared.contracts.identifiers import MessageId, SessionRef
from shared.ports import Allowances, SessionQueue

SLICE_PART: Final = 5
"""A slice is one of so many parts of what is allowed at once: that much a process may hold that others could use."""
HELD_FOR_MS: Final = 60_000
KEYS_LIMIT: Final = 20_000


class Grant(msgspec.Struct, frozen=True):
    """`wait_ms` 0 = granted. `is_known`: nothing was taken, for the message is a turn already."""

    wait_ms: int = 0
    is_known: bool = False


class _Holding(msgspec.Struct):
    held: int = 0
    lapses_at_ms: int = 0
    blocked_until_ms: int = 0


class SharedRate:
    """One kind of allowance as this process sees it. Never more is granted than the rate allows, by however many."""

    def __init__(
        self,
        kind: AllowanceKind,
        rate: Rate,
        *,
        allowances: Allowances,
        sessions: SessionQueue,
        clock: Clock,
        keys_limit: int = KEYS_LIMIT,
    ) -> None:
        """`rate.per_min` 0 = no limit, nobody is asked."""
        self._kind: AllowanceKind = kind
        self._rate = rate
        self._allowances = allowances
        self._sessions = sessions
        self._clock = clock
        self._keys_limit = keys_limit
        self._slice = max(1, rate.burst // SLICE_PART)
        self._holdings: OrderedDict[tuple[str, str], _Holding] = OrderedDict()

    async def take(self, session: SessionRef, message_id: MessageId) -> Grant:
        """Take one for a message. A refusal costs one read. Raises DependencyUnavailable when nobody could ask."""
        if self._rate.per_min <= 0:
            return Grant()
        now_ms = self._clock.now_ms()
        holding = self._holding(session)
        if holding.held and now_ms < holding.lapses_at_ms:
            holding.held -= 1
            return Grant()
        if now_ms < holding.blocked_until_ms:
            known = await self._sessions.find_message(session, message_id)
            return Grant(holding.blocked_until_ms - now_ms, known is not None)
        answer = await self._allowances.take(
            self._kind,
            self._rate,
            self._slice,
            session=session,
            message_id=message_id,
            now_ms=now_ms,
        )
        is_known = answer.known is not None
        if not answer.granted:
            holding.blocked_until_ms = now_ms + answer.wait_ms
            return Grant(answer.wait_ms, is_known)
        holding.held = answer.granted if is_known else answer.granted - 1
        holding.lapses_at_ms = now_ms + HELD_FOR_MS
        return Grant(is_known=is_known)

    def give_back(self, session: SessionRef) -> None:
        """What was taken for a message that proved to be a repeat."""
        holding = self._holdings.get(self._key(session))
        if holding is not None and holding.held < self._slice:
            holding.held += 1

    def _holding(self, session: SessionRef) -> _Holding:
        key = self._key(session)
        holding = self._holdings.setdefault(key, _Holding())
        self._holdings.move_to_end(key)
        if len(self._holdings) > self._keys_limit:
            self._holdings.popitem(last=False)
        return holding

    def _key(self, session: SessionRef) -> tuple[str, str]:
        return session.tenant, session.user if self._kind == "user_turns" else ""
