"""Keeping the claims of a process alive, and learning when one must stop."""

from __future__ import annotations

from shared.clock import Clock
from shared.contracts.ledger import Held
from shared.errors import DependencyUnavailable
from shared.ports import TurnClaims
from shared.telemetry import Log
from shared.turn.live_turns import LiveTurns
from shared.turn.writer import Stop, TurnWriter

_log = Log("claim_keeper")


class ClaimKeeper:
    """Renews all live claims in one pipeline per interval. An interval is at most a third of the lease."""

    def __init__(
        self,
        claims: TurnClaims,
        live: LiveTurns,
        clock: Clock,
        *,
        interval_ms: int,
        grace_ms: int,
    ) -> None:
        self._claims = claims
        self._live = live
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._grace_ms = grace_ms

    async def run(self) -> None:
        """Renew until cancelled. Turns go on while the ledger is away; its next answer tells what became of them."""
        spent_s = 0.0
        while True:
            await self._live.wait_for_some()
            # A slow ledger must not stretch the interval beyond the lease.
            await self._clock.sleep(max(0.0, self._interval_s - spent_s))
            began_s = self._clock.monotonic_s()
            await self.renew()
            spent_s = self._clock.monotonic_s() - began_s

    async def renew(self) -> None:
        """One round: a turn whose user pressed stop, that was taken over, or that nobody reads is interrupted."""
        writers = [writer for writer in self._live if not writer.is_lost]
        if not writers:
            return
        claims = [writer.claim for writer in writers]
        now_ms = self._clock.now_ms()
        try:
            answers = await self._claims.renew_many(claims, now_ms)
        except DependencyUnavailable:
            _log.warning("claims.not_renewed", turns=len(writers))
            return
        now_s = self._clock.monotonic_s()
        for writer, claim, answer in zip(writers, claims, answers, strict=True):
            if writer.claim != claim:
                continue  # claimed anew meanwhile: the answer is about the old claim
            writer.take(answer, appended=None, now_s=now_s)
            if isinstance(answer, Held):
                self._look_for_readers(writer, answer, now_ms)

    def _look_for_readers(self, writer: TurnWriter, answer: Held, now_ms: int) -> None:
        since_ms = answer.readerless_since_ms
        if since_ms and not writer.request.detached and now_ms - since_ms >= self._grace_ms:
            writer.stop(Stop.READERLESS)
