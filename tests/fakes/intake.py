"""The orchestrators' door in memory."""

from __future__ import annotations

from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import DependencyUnavailable


class FakeIntake:
    """TurnIntake. `submitted` holds the requests; `decision` is the answer; `unavailable` makes it raise."""

    def __init__(self) -> None:
        self.submitted: list[TurnRequest] = []
        self.decision = IntakeDecision(path="inline", reason="free_slot")
        self.unavailable = False

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        if self.unavailable:
            raise DependencyUnavailable("the fake intake was told to be away")
        self.submitted.append(request)
        return self.decision
