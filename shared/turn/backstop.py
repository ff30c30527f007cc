"""Everything one process needs to sweep, wired: the composition root gives ports and limits, no more."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clock import Clock, Randomness
from shared.policy.sweeping import SweepLimits
from shared.ports import (
    DeadLetterQueue,
    DueTurns,
    FramePush,
    SessionQueue,
    TurnClaims,
    TurnDispatcher,
    TurnIntake,
    TurnQueue,
    TurnStore,
)
from shared.telemetry import Metrics
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.evidence import Evidence
from shared.turn.redispatch import Redispatch
from shared.turn.sweeper import Sweeper
from shared.turn.swept_ends import SweptEnds


@dataclass(frozen=True, kw_only=True)
class SweepPorts:
    """What sweeping needs from outside. `dispatcher` places a head as if it were new."""

    due: DueTurns
    claims: TurnClaims
    sessions: SessionQueue
    store: TurnStore
    push: FramePush
    queue: TurnQueue
    dead_letters: DeadLetterQueue
    intake: TurnIntake
    dispatcher: TurnDispatcher


def make_sweeper(
    ports: SweepPorts,
    *,
    sweeper: str,
    clock: Clock,
    randomness: Randomness,
    metrics: Metrics,
    limits: SweepLimits,
    interval_ms: int,
    ended: EndedTurns = NOBODY_TOLD,
) -> Sweeper:
    """The sweeper of a process, a part to be run; `sweeper` is unique among all processes."""
    redispatch = Redispatch(
        due=ports.due,
        sessions=ports.sessions,
        dispatcher=ports.dispatcher,
        intake=ports.intake,
        queue=ports.queue,
        sweeper=sweeper,
        clock=clock,
        metrics=metrics,
        limits=limits,
    )
    ends = SweptEnds(
        claims=ports.claims,
        store=ports.store,
        push=ports.push,
        dispatcher=ports.dispatcher,
        redispatch=redispatch,
        evidence=Evidence(ports.dead_letters, clock, randomness, worker=sweeper),
        clock=clock,
        metrics=metrics,
        limits=limits,
        ended=ended,
    )
    return Sweeper(
        due=ports.due,
        redispatch=redispatch,
        ends=ends,
        sweeper=sweeper,
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        limits=limits,
        interval_ms=interval_ms,
    )
