"""Analytics in memory."""

from __future__ import annotations

from shared.contracts.turn_events import TurnEndedEvent


class FakeTurnEvents:
    """TurnEvents; `noted` are the events."""

    def __init__(self) -> None:
        self.noted: list[TurnEndedEvent] = []

    def note(self, event: TurnEndedEvent) -> None:
        self.noted.append(event)
