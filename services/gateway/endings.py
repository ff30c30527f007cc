"""Ends that the gateway brings about itself: telling the other followers, and dispatching the session's next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from services.gateway.connections import Connections
from shared.contracts.identifiers import ConnectionId
from shared.contracts.ledger import Finished, Follower
from shared.ports import TurnDispatcher


class Broadcast(Protocol):
    """Pushes a terminal frame to followers on other processes; never raises."""

    async def __call__(self, followers: Sequence[Follower], data: bytes) -> None:
        """Each gets the frame at most once, best effort: who misses it finds it in the log."""
        ...


class Endings:
    """Follows up on a Finished answer of the ledger."""

    def __init__(
        self, connections: Connections, broadcast: Broadcast, dispatcher: TurnDispatcher
    ) -> None:
        self._connections = connections
        self._broadcast = broadcast
        self._dispatcher = dispatcher

    async def follow_up(
        self, finished: Finished, outcome: bytes, sender: ConnectionId | None
    ) -> None:
        """Send `outcome` to every follower but the sender, who is answered by its own session, and dispatch."""
        remote: list[Follower] = []
        for follower in finished.followers:
            if follower.connection_id == sender:
                continue
            receiver = self._connections.find(follower.connection_id)
            if receiver is None:
                remote.append(follower)
            else:
                receiver.deliver(outcome)
        tasks = []
        if remote:
            tasks.append(self._broadcast(remote, outcome))
        if finished.next_head is not None:
            tasks.append(self._dispatcher.dispatch(finished.next_head))
        await asyncio.gather(*tasks)
