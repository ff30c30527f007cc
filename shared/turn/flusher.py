"""The process-wide flusher: one tick, one pipeline of appends, and only what was appended is pushed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.clock import Clock
from shared.contracts.ledger import Append, Claimed, Follower
from shared.contracts.turns import Path
from shared.errors import DependencyUnavailable
from shared.policy.backoff import ceiling_ms
from shared.policy.flush_pace import smoothed_lag_ms, tick_length_ms
from shared.policy.limits import FlushLimits
from shared.ports import TurnClaims, TurnFollowers
from shared.telemetry import Log
from shared.turn.claimant import Claimant
from shared.turn.live_turns import LiveTurns
from shared.turn.pusher import Pusher
from shared.turn.reclaim import reclaim
from shared.turn.writer import TurnWriter

_log = Log("flusher")
_AWAY_WAIT_MS = 100
_AWAY_WAIT_MAX_MS = 1_000
_UNFOLLOW_WAIT_S = 0.5


class Flusher:
    """Carries the text of all live turns into their logs and to their readers.

    A frame is cut per turn and tick; the first text, `started` and whatever a writer hurries do not wait for it.
    While the ledger is away nothing is cut twice or pushed: text stays in the writers until an append succeeds.
    """

    def __init__(
        self,
        claims: TurnClaims,
        followers: TurnFollowers,
        pusher: Pusher,
        claimant: Claimant,
        live: LiveTurns,
        clock: Clock,
        limits: FlushLimits,
    ) -> None:
        self._claims = claims
        self._followers = followers
        self._pusher = pusher
        self._claimant = claimant
        self._live = live
        self._clock = clock
        self._limits = limits
        self._urgent = asyncio.Event()
        self._lag_ms = 0.0
        self._failures = 0
        self._away_until_s = 0.0
        self._unfollows: set[asyncio.Task[None]] = set()

    def open(self, claimed: Claimed, path: Path) -> TurnWriter:
        """Begin to flush and renew a claim. The caller must `close` what it opened."""
        writer = TurnWriter(
            claimed,
            path,
            now_s=self._clock.monotonic_s(),
            wake=self._urgent.set,
            gone=self._connection_gone,
        )
        self._live.add(writer)
        return writer

    def close(self, writer: TurnWriter) -> None:
        """Forget the claim; pushes under way go on. Idempotent."""
        self._live.discard(writer)
        self._pusher.forget(writer.ever_followed)

    def deliver(self, writer: TurnWriter, frames: Sequence[bytes]) -> None:
        """Push frames that are in the log to the writer's followers."""
        self._pusher.offer(writer.followers, frames, writer)
        self._pusher.pump()

    async def reclaim(self, writer: TurnWriter) -> bool:
        """Claim a turn anew that the ledger lost; False, and the writer interrupted, when it is no longer ours.

        Raises DependencyUnavailable when the ledger cannot be asked.
        """
        return await reclaim(self._claimant, writer, self._clock.monotonic_s)

    async def run(self) -> None:
        """Flush until cancelled. A crash is raised: without a flusher a process must not run turns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_ticks(), name="flusher-ticks")
            tasks.create_task(self._run_urgent(), name="flusher-urgent")

    async def _run_ticks(self) -> None:
        while True:
            await self._live.wait_for_some()
            tick_s = tick_length_ms(self._lag_ms, self._limits) / 1000
            began_s = self._clock.monotonic_s()
            await self._clock.sleep(tick_s)
            late_ms = (self._clock.monotonic_s() - began_s - tick_s) * 1000
            self._lag_ms = smoothed_lag_ms(self._lag_ms, late_ms)
            await self._flush([writer for writer in self._live if self._is_due(writer)])

    async def _run_urgent(self) -> None:
        while True:
            await self._urgent.wait()
            self._urgent.clear()
            await self._flush([writer for writer in self._live if writer.is_urgent])

    def _is_due(self, writer: TurnWriter) -> bool:
        if writer.is_urgent or writer.is_lost or writer.has_unlogged_frames:
            return True
        return writer.has_uncut_text and self._may_cut(writer)

    def _may_cut(self, writer: TurnWriter) -> bool:
        """False while every reader is still busy with earlier frames: then text gathers into fewer frames."""
        if any(self._pusher.is_free(follower) for follower in writer.followers):
            return True
        waited_ms = (self._clock.monotonic_s() - writer.last_cut_s) * 1000
        return waited_ms >= self._limits.tick_max_ms

    async def _flush(self, writers: Sequence[TurnWriter]) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._away_until_s:
            return  # still urgent or due, so the tick finds them again
        free = [writer for writer in writers if not (writer.is_busy or writer.is_closing)]
        for writer in free:
            writer.set_busy(True)
            writer.is_urgent = False
        try:
            await self._reclaim_lost(free)
            await self._append([writer for writer in free if not writer.is_lost])
        finally:
            for writer in free:
                writer.set_busy(False)
                if writer.is_urgent:
                    self._urgent.set()

    async def _append(self, writers: Sequence[TurnWriter]) -> None:
        pairs: list[tuple[TurnWriter, Append]] = []
        now_s = self._clock.monotonic_s()
        for writer in writers:
            if not (self._failures and writer.has_unlogged_frames):
                writer.cut(now_s)
            append = writer.unlogged()
            if append.frames:
                pairs.append((writer, append))
        if not pairs:
            return
        try:
            answers = await self._claims.append_many(
                [append for _, append in pairs], self._clock.now_ms()
            )
        except DependencyUnavailable:
            self._ledger_is_away(len(pairs))
            return
        self._failures = 0
        now_s = self._clock.monotonic_s()
        for (writer, append), answer in zip(pairs, answers, strict=True):
            writer.take(answer, appended=append, now_s=now_s)
            self._pusher.offer(writer.followers, writer.unpushed(), writer)
        self._pusher.pump()

    async def _reclaim_lost(self, writers: Sequence[TurnWriter]) -> None:
        lost = [writer for writer in writers if writer.is_lost]
        outcomes = await asyncio.gather(
            *(self.reclaim(writer) for writer in lost), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, DependencyUnavailable):
                self._ledger_is_away(len(lost))
            elif isinstance(outcome, BaseException):
                raise outcome

    def _ledger_is_away(self, turns: int) -> None:
        self._failures += 1
        wait_ms = ceiling_ms(_AWAY_WAIT_MS, self._failures, _AWAY_WAIT_MAX_MS)
        self._away_until_s = self._clock.monotonic_s() + wait_ms / 1000
        _log.warning("flusher.ledger_away", turns=turns, failures=self._failures)

    def _connection_gone(self, writer: TurnWriter, follower: Follower) -> None:
        task = asyncio.create_task(self._unfollow(writer, follower))
        self._unfollows.add(task)
        task.add_done_callback(self._unfollows.discard)

    async def _unfollow(self, writer: TurnWriter, follower: Follower) -> None:
        while writer in self._live:
            try:
                await self._followers.unfollow([writer.request.ref], follower, self._clock.now_ms())
            except DependencyUnavailable:
                # As long as the ledger counts it as a reader, a turn that nobody reads goes on.
                _log.warning("follower.not_removed", connection_id=follower.connection_id)
                await self._clock.sleep(_UNFOLLOW_WAIT_S)
            else:
                return
