"""Ends that the gateway brings about itself: telling the other followers, and dispatching the session's next turn."""

from __future__ import annotations

import asyncio

from services.gateway.connections import Connections
from shared.contracts.identifiers import ConnectionId
from shared.contracts.ledger import Finished, Follower
from shared.ports import FramePush, TurnDispatcher
from shared.turn.broadcast import broadcast


class Endings:
    """Follows up on a Finished answer of the ledger."""

    def __init__(
        self, connections: Connections, push: FramePush, dispatcher: TurnDispatcher
    ) -> None:
        self._connections = connections
        self._push = push
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
            tasks.append(broadcast(self._push, remote, outcome))
        if finished.next_head is not None:
            tasks.append(self._dispatcher.dispatch(finished.next_head))
        await asyncio.gather(*tasks)
