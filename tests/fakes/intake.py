"""The orchestrators' door in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import DependencyUnavailable


class FakeIntake:
    """TurnIntake. `submitted` holds the requests; `decision` is the answer; `unavailable` makes it raise.

    `answering`, when set, is called instead, with the request.
    """

    def __init__(self) -> None:
        self.submitted: list[TurnRequest] = []
        self.decision = IntakeDecision(path="inline", reason="free_slot")
        self.unavailable = False
        self.answering: Callable[[TurnRequest], Awaitable[IntakeDecision]] | None = None

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        if self.unavailable:
            raise DependencyUnavailable("the fake intake was told to be away")
        if self.answering is not None:
            return await self.answering(request)
        self.submitted.append(request)
        return self.decision
