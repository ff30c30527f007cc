"""Sends a session's next head the way of every new turn, from inside this task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError
from shared.policy.routing import has_own_queue
from shared.ports import TurnDispatcher
from shared.telemetry import Log

_log = Log("dispatch")


class HeadDispatcher:
    """Gives the finisher's next head to this task's own placement, or to the queue that it belongs on.

    `place` is asked for at each dispatch, since the placement needs slots, slots need the pipeline and the pipeline
    needs its dispatcher: this is the one late binding of the circle.
    """

    def __init__(
        self,
        place: Callable[[TurnRequest], Awaitable[IntakeDecision]],
        queues: TurnDispatcher,
    ) -> None:
        self._place = place
        self._queues = queues

    async def dispatch(self, request: TurnRequest) -> None:
        """A turn that is shed or cannot be sent stays head and unclaimed: the sweeper offers it again."""
        if has_own_queue(request):
            await self._queues.dispatch(request)
            return
        try:
            decision = await self._place(request)
        except ChatError as error:
            _log.warning(
                "head.left_to_sweeper",
                turn_id=request.turn_id,
                reason="unavailable",
                error_type=type(error).__name__,
            )
            return
        if decision.path is None:
            _log.warning("head.left_to_sweeper", turn_id=request.turn_id, reason=decision.reason)
