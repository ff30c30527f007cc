"""Redriving many dead turns: a canary first, then the rest at a bounded rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.clock import Clock
from shared.contracts.dead_turns import DeadTurnBrief
from shared.contracts.turns import TurnStatus
from shared.policy.triage import is_redriven_with_others
from shared.ports import DeadTurns
from shared.turn.redrive import Redrive, Redriven

_POLL_S = 0.5
_UNENDED = ("waiting", "running", None)


@dataclass(kw_only=True)
class CampaignReport:
    """What was done. `left_out` must be named one by one. `stopped` says why the rest was not touched."""

    results: list[Redriven] = field(default_factory=list)
    left_out: list[DeadTurnBrief] = field(default_factory=list)
    untouched: int = 0
    stopped: str = ""

    @property
    def redriven(self) -> int:
        """How many turns run again by this call."""
        return sum(result.outcome == "redriven" for result in self.results)


class Campaign:
    """One call of `burstchat dlq redrive`."""

    def __init__(
        self,
        redrive: Redrive,
        dead_turns: DeadTurns,
        clock: Clock,
        *,
        by: str,
        rate_per_s: float,
        wait_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """`wait_s` bounds the wait for the canary's end; `tell` gets a line of progress."""
        self._redrive = redrive
        self._dead_turns = dead_turns
        self._clock = clock
        self._by = by
        self._pause_s = 1 / rate_per_s
        self._wait_s = wait_s
        self._tell = tell

    async def one(self, turn_id: str) -> CampaignReport:
        """Redrive a turn that was named, whatever its class, and wait for its end."""
        report = CampaignReport()
        if (await self._attempt(turn_id, report)).outcome == "redriven":
            report.stopped = await self._judge_canary(turn_id, report)
        return report

    async def many(self, turns: Sequence[DeadTurnBrief]) -> CampaignReport:
        """Redrive the open turns of a fingerprint, oldest first."""
        report = CampaignReport()
        report.left_out = [
            turn for turn in turns if turn.state == "open" and not is_redriven_with_others(turn)
        ]
        for turn in turns:
            if turn.state != "open":
                await self._attempt(turn.id, report)
        waiting = [turn.id for turn in turns if is_redriven_with_others(turn)]
        # A redrive that is still under way is the canary; sending a second one would only add to the heap.
        canary = next((each.turn_id for each in report.results if _is_under_way(each)), None)
        while canary is None and waiting:
            turn_id = waiting.pop(0)
            if (await self._attempt(turn_id, report)).outcome == "redriven":
                canary = turn_id
        if canary is not None:
            report.stopped = await self._judge_canary(canary, report)
        if report.stopped:
            report.untouched = len(waiting)
            return report
        for turn_id in waiting:
            await self._clock.sleep(self._pause_s)
            await self._attempt(turn_id, report)
        return report

    async def _attempt(self, turn_id: str, report: CampaignReport) -> Redriven:
        result = await self._redrive.redrive(turn_id, by=self._by)
        report.results.append(result)
        return result

    async def _judge_canary(self, turn_id: str, report: CampaignReport) -> str:
        """Wait for the canary's end; empty when it was answered, else why nothing more is sent."""
        self._tell(f"{turn_id} is the canary: waiting for its end, at most {self._wait_s:g} s")
        status = await self._await_end(turn_id)
        position = [result.turn_id for result in report.results].index(turn_id)
        report.results[position] = Redriven(turn_id, report.results[position].outcome, status)
        if status == "completed":
            return ""
        if status in _UNENDED:
            return (
                f"the canary {turn_id} has not ended within {self._wait_s:g} s: see whether the background queue is "
                "consumed, then run the same command again"
            )
        return f"the canary {turn_id} ended {status}: the cause is still there"

    async def _await_end(self, turn_id: str) -> TurnStatus | None:
        dead = await self._dead_turns.find(turn_id)
        give_up_at_s = self._clock.monotonic_s() + self._wait_s
        while True:
            status = None if dead is None else await self._redrive.status(dead)
            if status not in _UNENDED or self._clock.monotonic_s() >= give_up_at_s:
                return status
            await self._clock.sleep(_POLL_S)


def _is_under_way(result: Redriven) -> bool:
    return result.outcome == "already_redriven" and result.status in ("waiting", "running")
