"""Sends a session's next head to a queue: the way of workers that have no slots of their own to offer."""

from __future__ import annotations

import msgspec

from shared.clock import Clock
from shared.contracts.turns import Path, TurnRequest
from shared.errors import ChatError
from shared.policy.routing import has_own_queue, queue_for
from shared.ports import SessionQueue, TurnQueue
from shared.telemetry import Log

_log = Log("queue_dispatcher")


class QueueDispatcher:
    """A TurnDispatcher: burst for interactive turns, else the queue of the turn's priority."""

    def __init__(self, queue: TurnQueue, sessions: SessionQueue, clock: Clock) -> None:
        self._queue = queue
        self._sessions = sessions
        self._clock = clock

    async def dispatch(self, request: TurnRequest) -> None:
        """Send, then mark the turn as queued. A failure of either is logged: the sweeper is the backstop."""
        name = queue_for(request)
        message = msgspec.structs.replace(
            request,
            enqueued_at_ms=self._clock.now_ms(),
            reason=request.reason or "next_head",
        )
        try:
            await self._queue.send(name, message)
            path: Path = "queue" if has_own_queue(request) else "burst"
            await self._sessions.mark_placed(request.ref, path, self._clock.now_ms())
        except ChatError as error:
            _log.warning(
                "head.left_to_sweeper",
                turn_id=request.turn_id,
                queue=name,
                error_type=type(error).__name__,
            )
