"""How loaded the fleet is, and how turns are answered at each level.

A level is entered at once, when either waiting turns per capacity or the predicted wait reaches its mark, and left
when both have stayed below three quarters of it for ten seconds. A load that comes back within a minute has only been
held down by what the level does; each time it must stay away twice as long, so that the level does not swing with it.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from shared.contracts.load import FleetLoad
from shared.policy.limits import AnswerPlan
from shared.policy.wait_estimate import estimate_wait_ms

LEAVE_SHARE = 0.75
LEAVE_AFTER_MS = 10_000
LEAVE_AFTER_MAX_MS = 80_000
COMES_BACK_WITHIN_MS = 60_000
LOADED_MAX_TOKENS = 512
LOADED_HISTORY_TURNS = 8
LOADED_HISTORY_TOKENS = 2_500


class LoadLevel(IntEnum):
    """Higher is more loaded; effects are cumulative."""

    NORMAL = 0
    MILD = 1
    MODERATE = 2
    SEVERE = 3


_MARKS = {
    LoadLevel.MILD: (0.5, 15_000),
    LoadLevel.MODERATE: (1.5, 30_000),
    LoadLevel.SEVERE: (3.0, 45_000),
}


class LevelState(msgspec.Struct, frozen=True):
    """The level, and since when (monotonic ms) the load has been below its leaving mark; None = it is not.

    `left_at_ms`: when a level was last left. `patience_ms`: how long the load must stay below the mark.
    """

    level: LoadLevel = LoadLevel.NORMAL
    calm_since_ms: float | None = None
    left_at_ms: float | None = None
    patience_ms: int = LEAVE_AFTER_MS


def next_level(
    state: LevelState, load: FleetLoad, burst_capacity_turns: int, now_ms: float
) -> LevelState:
    """The level after one more reading of the load."""
    reached = _highest(load, burst_capacity_turns, 1.0)
    if reached > state.level:
        patience_ms = _patience_ms(state, now_ms)
        return LevelState(reached, left_at_ms=state.left_at_ms, patience_ms=patience_ms)
    held = _highest(load, burst_capacity_turns, LEAVE_SHARE)
    if held >= state.level:
        return msgspec.structs.replace(state, calm_since_ms=None)
    calm_since_ms = now_ms if state.calm_since_ms is None else state.calm_since_ms
    if now_ms - calm_since_ms < state.patience_ms:
        return msgspec.structs.replace(state, calm_since_ms=calm_since_ms)
    return LevelState(held, left_at_ms=now_ms, patience_ms=state.patience_ms)


def _patience_ms(state: LevelState, now_ms: float) -> int:
    if state.left_at_ms is None or now_ms - state.left_at_ms > COMES_BACK_WITHIN_MS:
        return LEAVE_AFTER_MS if state.level is LoadLevel.NORMAL else state.patience_ms
    return min(LEAVE_AFTER_MAX_MS, 2 * state.patience_ms)


def answer_plan(level: LoadLevel, normal: AnswerPlan, fast_model: str) -> AnswerPlan:
    """Mild and worse: the fast model. Moderate and worse: shorter answers from a shorter history, too."""
    if level is LoadLevel.NORMAL:
        return normal
    if level is LoadLevel.MILD:
        return AnswerPlan(
            model=fast_model,
            max_tokens=normal.max_tokens,
            history_turns=normal.history_turns,
            history_tokens=normal.history_tokens,
        )
    return AnswerPlan(
        model=fast_model,
        max_tokens=min(LOADED_MAX_TOKENS, normal.max_tokens),
        history_turns=min(LOADED_HISTORY_TURNS, normal.history_turns),
        history_tokens=min(LOADED_HISTORY_TOKENS, normal.history_tokens),
    )


def _highest(load: FleetLoad, burst_capacity_turns: int, share: float) -> LoadLevel:
    capacity = sum(sample.slots for sample in load.samples) + burst_capacity_turns
    waiting_per_capacity = load.burst_waiting / max(1, capacity)
    wait_ms = estimate_wait_ms(load, burst_capacity_turns)
    return max(
        (
            level
            for level, (ratio, limit_ms) in _MARKS.items()
            if waiting_per_capacity >= ratio * share or wait_ms > limit_ms * share
        ),
        default=LoadLevel.NORMAL,
    )
