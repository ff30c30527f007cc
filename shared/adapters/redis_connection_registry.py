"""The connection registry in Redis. A connection lives as long as its owner's lease."""

from __future__ import annotations

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_scripts import Call, load_script
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionRef
from shared.contracts.ledger import Follower


class RedisConnectionRegistry:
    """ConnectionRegistry over lua/register and unregister, and one lease key per owner."""

    def __init__(
        self, client: RedisClient, *, owner_lease_ms: int, connection_kept_ms: int = 7_200_000
    ) -> None:
        """`connection_kept_ms` is above the maximum age of a connection, so no entry outlives its use by much."""
        self._client = client
        self._owner_lease_ms = owner_lease_ms
        self._connection_kept_ms = connection_kept_ms
        self._register = load_script("register")
        self._unregister = load_script("unregister")

    async def register(self, session: SessionRef, follower: Follower) -> None:
        """See ConnectionRegistry. One round trip."""
        register = self._register.call(
            (redis_keys.connection(follower.connection_id),),
            self._connection_kept_ms,
            follower.endpoint,
            follower.owner,
            session.tenant,
            session.user,
            session.session_id,
        )
        calls = (register, self._renewal(follower.owner))
        for reply in await self._client.run(calls, repeatable=True):
            answered(reply)

    async def unregister(self, follower: Follower) -> None:
        """See ConnectionRegistry. One round trip."""
        key = redis_keys.connection(follower.connection_id)
        call = self._unregister.call((key,), follower.owner)
        await self._client.run_one(call, repeatable=True)

    async def lookup(self, connection_id: ConnectionId) -> Follower | None:
        """See ConnectionRegistry. Two round trips: the owner's lease lies in another slot and is named by the entry."""
        key = redis_keys.connection(connection_id)
        call: Call = ("HMGET", key, "endpoint", "owner")
        endpoint, owner = await self._client.run_one(call, repeatable=True)
        if owner is None:
            return None
        follower = Follower(connection_id, endpoint.decode(), OwnerId(owner.decode()))
        lease: Call = ("EXISTS", redis_keys.owner(follower.owner))
        return follower if await self._client.run_one(lease, repeatable=True) else None

    async def renew_owner(self, owner: OwnerId) -> None:
        """See ConnectionRegistry. One round trip."""
        await self._client.run_one(self._renewal(owner), repeatable=True)

    def _renewal(self, owner: OwnerId) -> Call:
        return ("SET", redis_keys.owner(owner), "1", "PX", self._owner_lease_ms)
