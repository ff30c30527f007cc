"""The connection registry in Redis. A connection lives as long as its owner's lease."""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, Reply, answered
from shared.adapters.redis_scripts import Call, load_script
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionRef
from shared.contracts.ledger import Follower


class RedisConnectionRegistry:
    """ConnectionRegistry over lua/register, unregister and admit_connection, and one lease key per owner."""

    def __init__(
        self,
        client: RedisClient,
        *,
        owner_lease_ms: int,
        connection_kept_ms: int = 7_200_000,
        user_connections: int = 0,
    ) -> None:
        """`connection_kept_ms` is above the maximum age of a connection, so no entry outlives its use by much.

        `user_connections` is how many one user may have; 0 = they are not counted.
        """
        self._client = client
        self._owner_lease_ms = owner_lease_ms
        self._connection_kept_ms = connection_kept_ms
        self._user_connections = user_connections
        self._register = load_script("register")
        self._unregister = load_script("unregister")
        self._admit = load_script("admit_connection")

    async def register(self, session: SessionRef, follower: Follower) -> bool:
        """See ConnectionRegistry. One round trip; a refusal costs up to three more, none of them per connection."""
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
        if not self._user_connections:
            await self._run(calls)
            return True
        *_, others = await self._run((*calls, self._admission(session, follower)))
        if not others or await self._admit_instead_of_dead(session, follower, others):
            return True
        await self._run((self._removal(follower),))
        return False

    async def unregister(self, session: SessionRef, follower: Follower) -> None:
        """See ConnectionRegistry. One round trip."""
        calls = [self._removal(follower)]
        if self._user_connections:
            calls.append(("HDEL", _users(session), follower.connection_id))
        await self._run(calls)

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

    async def _admit_instead_of_dead(
        self, session: SessionRef, follower: Follower, others: Sequence[bytes]
    ) -> bool:
        """A process that died took its connections with it, but nobody took them out of the count."""
        owner_of = dict(zip(others[::2], others[1::2], strict=True))
        owners = sorted(set(owner_of.values()))
        leases = await self._run(
            [("EXISTS", redis_keys.owner(OwnerId(owner.decode()))) for owner in owners]
        )
        dead = {owner for owner, lives in zip(owners, leases, strict=True) if not lives}
        gone = [connection for connection, owner in owner_of.items() if owner in dead]
        if not gone:
            return False
        *_, left = await self._run(
            (("HDEL", _users(session), *gone), self._admission(session, follower))
        )
        return not left

    async def _run(self, calls: Sequence[Call]) -> list[Reply]:
        return [answered(reply) for reply in await self._client.run(calls, repeatable=True)]

    def _admission(self, session: SessionRef, follower: Follower) -> Call:
        return self._admit.call(
            (_users(session),),
            self._connection_kept_ms,
            follower.connection_id,
            follower.owner,
            self._user_connections,
        )

    def _removal(self, follower: Follower) -> Call:
        key = redis_keys.connection(follower.connection_id)
        return self._unregister.call((key,), follower.owner)

    def _renewal(self, owner: OwnerId) -> Call:
        return ("SET", redis_keys.owner(owner), "1", "PX", self._owner_lease_ms)


def _users(session: SessionRef) -> str:
    return redis_keys.user_connections(session.tenant, session.user)
