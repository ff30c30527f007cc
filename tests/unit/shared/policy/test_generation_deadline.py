"""How long a model call may take."""

from __future__ import annotations

from typing import Any

import pytest

from shared.policy.generation_deadline import CallProgress, next_deadline
from tests.fakes.limits import turn_limits


@pytest.mark.parametrize(
    ("changes", "deadline_ms", "overrun"),
    [
        ({}, 20_000, "first_event"),
        ({"last_event_ms": 1_000.0}, 16_000, "silence"),
        ({"last_event_ms": 40_000.0}, 45_000, "generation"),
        ({"first_text_by_ms": 9_000.0}, 9_000, "first_text"),
        ({"first_text_by_ms": 9_000.0, "is_visible": True}, 20_000, "first_event"),
        ({"last_event_ms": 44_500.0, "stopped": True}, 45_500, "silence"),
    ],
)
@pytest.mark.case("B-24")
def test_the_nearest_deadline_counts(
    changes: dict[str, Any], deadline_ms: float, overrun: str
) -> None:
    fields: dict[str, Any] = {
        "started_ms": 0.0,
        "last_event_ms": None,
        "is_visible": False,
        "stopped": False,
        "first_text_by_ms": None,
    }

    found = next_deadline(CallProgress(**{**fields, **changes}), turn_limits())

    assert found == (deadline_ms, overrun)
