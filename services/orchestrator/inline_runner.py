"""The inline slots: a bounded set of tasks, each running one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from services.orchestrator.tenant_shares import TenantShares
from shared.clock import Clock
from shared.contracts.turns import TurnRequest
from shared.policy.admission import SlotCount
from shared.telemetry import Log, bind

_log = Log("inline_runner")


class InlineRunner:
    """Holds a reference to every task until it ends, so none is lost; a turn that raises harms no other.

    `run` runs one turn to its end; `turn_ended` gets its duration in ms.
    """

    def __init__(
        self,
        *,
        slots: int,
        shares: TenantShares,
        run: Callable[[TurnRequest], Awaitable[object]],
        turn_ended: Callable[[float], None],
        clock: Clock,
    ) -> None:
        self._slots = slots
        self._shares = shares
        self._run = run
        self._turn_ended = turn_ended
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> SlotCount:
        """Slots and how many are taken, this instant."""
        return SlotCount(self._slots, len(self._tasks))

    def start(self, request: TurnRequest) -> None:
        """Take a slot and run the turn. The caller has looked at `count` without awaiting in between."""
        self._shares.start(request.tenant)
        task = asyncio.create_task(self._run_one(request), name=request.turn_id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Return when no turn runs any more; turns started meanwhile are waited for too."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel what still runs and wait for it: those turns are handed over, so others take them over at once."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _log.warning("inline.cut", turns=len(self._tasks))
            await asyncio.wait(self._tasks)

    async def _run_one(self, request: TurnRequest) -> None:
        started_s = self._clock.monotonic_s()
        try:
            with bind(turn_id=request.turn_id, session_id=request.session_id):
                await self._run(request)
        except Exception as error:  # noqa: BLE001 - one turn's bug must not end the process
            _log.exception("turn.crashed", error, turn_id=request.turn_id)
        finally:
            self._shares.end(request.tenant)
            self._turn_ended((self._clock.monotonic_s() - started_s) * 1000)
