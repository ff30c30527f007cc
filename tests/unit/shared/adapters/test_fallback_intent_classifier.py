from __future__ import annotations

import io
import logging

import pytest

from shared.adapters.fallback_intent_classifier import FallbackIntentClassifier
from shared.contracts.knowledge import Intent
from shared.errors import DependencyUnavailable
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeIntentClassifier

REST_MS = 5_000


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.remote = FakeIntentClassifier({"parcel": "shipping"})
        self.local = FakeIntentClassifier({"parcel": "order_status"})
        self.asked = 0
        self.metrics = io.StringIO()
        self.classifier = FallbackIntentClassifier(
            self,
            self.local,
            clock=self.clock,
            metrics=Metrics("burstchat", "orchestrator", self.clock, self.metrics),
            rest_ms=REST_MS,
        )

    async def classify(self, text: str) -> Intent:
        self.asked += 1
        return await self.remote.classify(text)


async def test_the_remote_answers_while_it_can() -> None:
    world = World()
    assert (await world.classifier.classify("parcel")).label == "shipping"


async def test_the_local_one_stands_in_with_an_event_and_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.remote.is_down = True
    with caplog.at_level(logging.INFO):
        assert (await world.classifier.classify("parcel")).label == "order_status"
    assert [record.getMessage() for record in caplog.records] == ["intent.fallback"]
    assert "parcel" not in caplog.text
    assert world.metrics.getvalue().count('"IntentFallback":1') == 1


async def test_a_failing_remote_is_left_alone_for_a_while() -> None:
    world = World()
    world.remote.is_down = True
    for _ in range(10):
        await world.classifier.classify("parcel")
    assert world.asked == 1

    world.remote.is_down = False
    await world.clock.advance(REST_MS / 1000)

    assert (await world.classifier.classify("parcel")).label == "shipping"
    assert world.asked == 2


async def test_when_both_fail_the_caller_knows() -> None:
    world = World()
    world.remote.is_down = world.local.is_down = True
    with pytest.raises(DependencyUnavailable):
        await world.classifier.classify("parcel")


async def test_a_bug_of_the_remote_is_not_hidden() -> None:
    world = World()

    async def broken(text: str) -> Intent:
        raise ZeroDivisionError

    world.remote.classify = broken
    with pytest.raises(ZeroDivisionError):
        await world.classifier.classify("parcel")
