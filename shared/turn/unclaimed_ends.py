"""Ending a turn that nobody holds: the ledger first, then its followers, then its session's next head."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from shared.clock import Clock
from shared.contracts.identifiers import TurnRef
from shared.contracts.ledger import EndAnswer, Finished, Follower
from shared.contracts.server_frames import encode_frame
from shared.contracts.turns import EndStatus
from shared.ports import TurnClaims, TurnDispatcher
from shared.telemetry import Metrics
from shared.turn.terminal_frames import EndPlace, TerminalMaker

Tell = Callable[[Sequence[Follower], bytes], Coroutine[Any, Any, None]]
"""Brings one terminal frame to a turn's followers. Raises nothing: who misses it learns the end from the log."""


class UnclaimedEnds:
    """Ends turns in the name of one process, which chooses how followers are told."""

    def __init__(
        self, claims: TurnClaims, dispatcher: TurnDispatcher, tell: Tell, clock: Clock
    ) -> None:
        self._claims = claims
        self._dispatcher = dispatcher
        self._tell = tell
        self._clock = clock

    async def end(
        self, turn: TurnRef, status: EndStatus, terminal: TerminalMaker, place: EndPlace
    ) -> EndAnswer:
        """End the turn at `place` unless somebody claimed or ended it meanwhile; see TurnClaims.end_unclaimed.

        After a Finished answer the followers have been told and the next head is dispatched. Raises what the ledger
        raises.
        """
        outcome = encode_frame(terminal(*place))
        answer = await self._claims.end_unclaimed(
            turn,
            status=status,
            outcome=outcome,
            now_ms=self._clock.now_ms(),
            attempt=place.attempt,
        )
        if isinstance(answer, Finished):
            await self.follow_up(answer, outcome)
        return answer

    async def follow_up(self, finished: Finished, outcome: bytes) -> None:
        """What an end owes to others, both at once; also for an end that another verb of the ledger brought about."""
        work = [self._tell(finished.followers, outcome)]
        if finished.next_head is not None:
            work.append(self._dispatcher.dispatch(finished.next_head))
        await asyncio.gather(*work)


def count_end(metrics: Metrics, status: EndStatus, *, path: str, code: str = "") -> None:
    """Count the end of a turn: once per turn, by whoever brought it about. `path` names the way it went."""
    metrics.count("TurnEnded", status=status, path=path, code=code or "none")
