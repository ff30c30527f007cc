"""Ends that the gateway brings about itself: telling the other followers, and dispatching the session's next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from services.gateway.connections import Connections
from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId
from shared.contracts.ledger import Finished, Follower
from shared.ports import FramePush, TurnClaims, TurnDispatcher
from shared.turn.broadcast import broadcast
from shared.turn.unclaimed_ends import UnclaimedEnds

TASKS_LIMIT = 256


class FollowUps:
    """Follows up on a Finished answer of the ledger.

    Other gateways and the intake are spoken to in the background, each within its own deadlines, so that the caller
    is answered at once. What a dying process leaves undone, the sweeper and the followers' own checks find.
    """

    def __init__(
        self,
        connections: Connections,
        claims: TurnClaims,
        push: FramePush,
        dispatcher: TurnDispatcher,
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._ends = UnclaimedEnds(claims, dispatcher, partial(broadcast, push), clock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, finished: Finished, outcome: bytes, sender: ConnectionId | None) -> None:
        """Send `outcome` to every follower but the sender, who is answered by its own session, and dispatch.

        Waits only while too much is under way already.
        """
        remote = self._deliver_here(finished.followers, outcome, sender)
        if remote or finished.next_head is not None:
            left = msgspec.structs.replace(finished, followers=remote)
            await self._in_background(self._ends.follow_up(left, outcome))

    async def settle(self) -> None:
        """Return when nothing is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _deliver_here(
        self, followers: Sequence[Follower], outcome: bytes, sender: ConnectionId | None
    ) -> tuple[Follower, ...]:
        remote: list[Follower] = []
        for follower in followers:
            if follower.connection_id == sender:
                continue
            if self._connections.find(follower.connection_id) is None:
                remote.append(follower)
            else:
                self._connections.deliver(follower.connection_id, outcome)
        return tuple(remote)

    async def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        while len(self._tasks) >= TASKS_LIMIT:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
