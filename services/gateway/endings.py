"""Ends that the gateway brings about itself: telling the other followers, and dispatching the session's next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from services.gateway.connections import Connections
from shared.contracts.identifiers import ConnectionId
from shared.contracts.ledger import Finished, Follower
from shared.ports import FramePush, TurnDispatcher
from shared.turn.broadcast import broadcast

TASKS_LIMIT = 256


class Endings:
    """Follows up on a Finished answer of the ledger.

    Other gateways and the intake are spoken to in the background, each within its own deadlines, so that the caller
    is answered at once. What a dying process leaves undone, the sweeper and the followers' own checks find.
    """

    def __init__(
        self, connections: Connections, push: FramePush, dispatcher: TurnDispatcher
    ) -> None:
        self._connections = connections
        self._push = push
        self._dispatcher = dispatcher
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow_up(
        self, finished: Finished, outcome: bytes, sender: ConnectionId | None
    ) -> None:
        """Send `outcome` to every follower but the sender, who is answered by its own session, and dispatch.

        Waits only while too much is under way already.
        """
        remote = self._deliver_here(finished.followers, outcome, sender)
        if remote:
            await self._start(broadcast(self._push, remote, outcome))
        if finished.next_head is not None:
            await self._start(self._dispatcher.dispatch(finished.next_head))

    async def settle(self) -> None:
        """Return when nothing is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _deliver_here(
        self, followers: Sequence[Follower], outcome: bytes, sender: ConnectionId | None
    ) -> list[Follower]:
        remote: list[Follower] = []
        for follower in followers:
            if follower.connection_id == sender:
                continue
            if self._connections.find(follower.connection_id) is None:
                remote.append(follower)
            else:
                self._connections.deliver(follower.connection_id, outcome)
        return remote

    async def _start(self, work: Coroutine[Any, Any, None]) -> None:
        while len(self._tasks) >= TASKS_LIMIT:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
