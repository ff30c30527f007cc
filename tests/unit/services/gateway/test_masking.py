"""Personal data in messages, masked at the door."""

from __future__ import annotations

import io

import pytest

from services.gateway.masking import Masking
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock

CARD = "4111 1111 1111 1111"


def masking(*, is_on: bool = True) -> tuple[Masking, io.StringIO]:
    written = io.StringIO()
    return Masking(is_on=is_on, metrics=Metrics("test", "gateway", FakeClock(), written)), written


def test_text_and_metadata_are_masked_and_counted_by_kind() -> None:
    guard, written = masking()

    text, metadata = guard.message(f"Pay with {CARD}, mail ana@example.com", {"note": CARD})

    assert (text, metadata) == ("Pay with [card], mail [mail]", {"note": "[card]"})
    assert '"Kind":"card"' in written.getvalue()
    assert '"Kind":"email"' in written.getvalue()
    assert "4111" not in written.getvalue()


def test_switched_off_everything_passes_as_it_is() -> None:
    guard, written = masking(is_on=False)

    assert guard.message(CARD, {"note": CARD}) == (CARD, {"note": CARD})
    assert written.getvalue() == ""


@pytest.mark.parametrize("text", ["Any news of order MA-2024-001?", "ISBN 9781421500577"])
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    guard, written = masking()

    assert guard.message(text, {}) == (text, {})
    assert written.getvalue() == ""
