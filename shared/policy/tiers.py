"""What a load level does to turns that nobody waits for at a screen: the lowest priority yields first."""

from __future__ import annotations

from typing import Final, Literal

from shared.contracts.turns import Priority
from shared.policy.load_level import LoadLevel

TierReason = Literal["low_refused", "normal_refused"]
LOW_PER_S: Final = 1
"""Low-priority turns a second that each tenant gets while the level is mild."""
_HINTS_MS: Final[dict[TierReason, int]] = {"low_refused": 30_000, "normal_refused": 15_000}
_HINT_MAX_MS: Final = 120_000


def tier_refusal(priority: Priority, level: LoadLevel) -> TierReason | None:
    """Why a turn of that priority is refused at this level. `high` never is: its own wait decides."""
    if priority == "low" and level >= LoadLevel.MODERATE:
        return "low_refused"
    if priority == "normal" and level >= LoadLevel.SEVERE:
        return "normal_refused"
    return None


def is_throttled(priority: Priority, level: LoadLevel) -> bool:
    """True when the turn's tenant gets no more than LOW_PER_S of its kind."""
    return priority == "low" and level >= LoadLevel.MILD


def tier_retry_after_ms(reason: TierReason, predicted_wait_ms: int) -> int:
    """When to come back: not before the queue of those who do wait has drained, at least a while."""
    return min(_HINT_MAX_MS, _HINTS_MS[reason] + max(0, predicted_wait_ms))
