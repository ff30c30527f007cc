"""When a turn is too old to begin, and until when its first text may come."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import TurnRequest
from shared.policy.staleness import age_ms, first_text_deadline_ms, is_stale
from tests.fakes.limits import turn_limits

LIMITS = turn_limits()
LOW: dict[str, Any] = {"detached": True, "priority": "low"}


def request(**changes: Any) -> TurnRequest:
    fields: dict[str, Any] = {
        "turn_id": TurnId("t"),
        "session_id": SessionId("s"),
        "message_id": MessageId("m"),
        "tenant": TenantId("acme"),
        "user": UserId("ana"),
        "text": "Hi",
        "accepted_at_ms": 1_000,
        "ready_at_ms": 100_000,
    }
    return TurnRequest(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "now_ms", "stale"),
    [
        ({}, 145_000, False),
        ({}, 145_001, True),
        ({}, 0, False),
        ({"attempt_hint": 1}, 999_000, False),
        ({"ready_at_ms": 0}, 46_001, True),
        ({"limit_at_ms": 120_000}, 120_001, True),
        ({"limit_at_ms": 120_000}, 120_000, False),
        ({"detached": True}, 145_001, True),
        (LOW, 9_000_000, False),
        ({**LOW, "limit_at_ms": 5_000}, 5_001, True),
    ],
)
def test_staleness_counts_from_ready_and_spares_takeovers_and_background_work(
    changes: dict[str, Any], now_ms: int, stale: bool
) -> None:
    assert is_stale(request(**changes), now_ms, LIMITS) is stale


def test_age_is_never_negative() -> None:
    assert age_ms(request(), 99_000) == 0


@pytest.mark.parametrize(
    ("changes", "attempt", "claimed_at_ms", "deadline_ms"),
    [
        ({}, 1, 144_000, 160_000),
        ({"limit_at_ms": 150_000}, 1, 144_000, 150_000),
        ({"limit_at_ms": 950_000}, 1, 144_000, 160_000),
        ({}, 2, 159_000, 179_000),
        ({}, 2, 101_000, 160_000),
        (LOW, 1, 0, None),
        ({**LOW, "limit_at_ms": 500_000}, 1, 0, 500_000),
        ({**LOW, "limit_at_ms": 500_000}, 3, 499_000, 519_000),
    ],
)
def test_the_first_text_limit_counts_from_ready_and_leaves_a_later_attempt_some_time(
    changes: dict[str, Any], attempt: int, claimed_at_ms: int, deadline_ms: int | None
) -> None:
    found_ms = first_text_deadline_ms(
        request(**changes), attempt=attempt, claimed_at_ms=claimed_at_ms, limits=LIMITS
    )

    assert found_ms == deadline_ms
