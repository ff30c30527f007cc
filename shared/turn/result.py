"""What became of one run of a turn; from it a consumer knows whether to acknowledge its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.contracts.turns import EndStatus

Outcome = Literal["ended", "refused", "superseded", "retry_later", "not_settled"]


@dataclass(frozen=True, kw_only=True)
class TurnResult:
    """`ended` = this run ended the turn as `status`; `refused` = it was not ours to run; `superseded` = taken over.

    `retry_later` = the consumer hands the turn over: it sends the next attempt (`attempt_hint` = `attempt`) to the
    retry queue with `delay_ms`, then acknowledges. `not_settled` = the ledger could not be asked.
    """

    outcome: Outcome
    status: EndStatus | None = None
    attempt: int = 0
    code: str = ""
    delay_ms: int = 0

    @property
    def acknowledge(self) -> bool:
        """True when the message has done its duty; False leaves it to the queue, as nobody else may know of it."""
        return self.outcome not in ("not_settled", "retry_later")
