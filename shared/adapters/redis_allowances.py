"""Rates that all processes share, in Redis."""

from __future__ import annotations

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_keys import SessionKeys
from shared.adapters.redis_ledger_replies import known_state
from shared.adapters.redis_scripts import load_script
from shared.contracts.allowances import Allowance, AllowanceKind, Rate
from shared.contracts.identifiers import MessageId, SessionRef

_MINUTE_MS = 60_000


class RedisAllowances:
    """Allowances over lua/allowance and find_message, one round trip."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._allowance = load_script("allowance")
        self._find_message = load_script("find_message", "state")

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
        """See Allowances."""
        every_ms = _MINUTE_MS / rate.per_min
        user = session.user if kind == "user_turns" else ""
        keys = SessionKeys(session)
        replies = await self._client.run(
            (
                self._allowance.call(
                    (redis_keys.allowance(kind, session.tenant, user),),
                    now_ms,
                    f"{every_ms:.3f}",
                    rate.burst,
                    wanted,
                ),
                self._find_message.call((keys.message(message_id), keys.waiting)),
            )
        )
        (granted, wait_ms), found = map(answered, replies)
        known = known_state(found, session)
        return Allowance(granted=granted, wait_ms=wait_ms, known=known)
