"""The in-memory twin of the connection registry."""

from __future__ import annotations

from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId, OwnerId, SessionRef
from shared.contracts.ledger import Follower
from shared.errors import DependencyUnavailable


class FakeRegistry:
    """ConnectionRegistry in memory. `unavailable` makes every call raise DependencyUnavailable."""

    def __init__(
        self, clock: Clock, *, owner_lease_ms: int = 5_000, user_connections: int = 0
    ) -> None:
        self._clock = clock
        self._owner_lease_ms = owner_lease_ms
        self._user_connections = user_connections
        self._entries: dict[ConnectionId, tuple[SessionRef, Follower]] = {}
        self._leases: dict[OwnerId, int] = {}
        self.unavailable = False

    async def register(self, session: SessionRef, follower: Follower) -> bool:
        await self.renew_owner(follower.owner)
        others = [
            entry
            for other, entry in self._entries.values()
            if (other.tenant, other.user) == (session.tenant, session.user)
            and entry.connection_id != follower.connection_id
            and self.is_alive(entry.owner)
        ]
        if self._user_connections and len(others) >= self._user_connections:
            return False
        self._entries[follower.connection_id] = (session, follower)
        return True

    async def unregister(self, session: SessionRef, follower: Follower) -> None:
        self._ask()
        entry = self._entries.get(follower.connection_id)
        if entry is not None and entry[1].owner == follower.owner:
            del self._entries[follower.connection_id]

    async def lookup(self, connection_id: ConnectionId) -> Follower | None:
        self._ask()
        entry = self._entries.get(connection_id)
        if entry is None or not self.is_alive(entry[1].owner):
            return None
        return entry[1]

    async def renew_owner(self, owner: OwnerId) -> None:
        self._ask()
        self._leases[owner] = self._clock.now_ms() + self._owner_lease_ms

    def kill(self, owner: OwnerId) -> None:
        """Let the lease of a process lapse now."""
        self._leases.pop(owner, None)

    def is_alive(self, owner: OwnerId) -> bool:
        """True while the owner's lease holds."""
        return self._leases.get(owner, 0) > self._clock.now_ms()

    def _ask(self) -> None:
        if self.unavailable:
            raise DependencyUnavailable("the fake registry was told to be away")
