"""Reading `Retry-After`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.retry_after import retry_after_ms

NOW_MS = 1_790_000_000_000  # Mon, 21 Sep 2026 14:13:20 GMT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2_000),
        (" 171 ", 171_000),
        ("62291", 62_291_000),
        ("0", 0),
        ("1.5", 1_500),
        ("Mon, 21 Sep 2026 14:13:25 GMT", 5_000),
        ("Mon, 21 Sep 2026 14:13:25 -0000", 5_000),
        ("Mon, 21 Sep 2026 16:13:25 +0200", 5_000),
        ("Mon, 21 Sep 2026 14:13:10 GMT", 0),
    ],
)
@pytest.mark.case("B-23")
def test_retry_after_reads_seconds_and_dates(value: str, expected: int) -> None:
    assert retry_after_ms(value, NOW_MS) == expected


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "-5", "nan", "inf", "1e3", "٣", "9" * 400, "Mon, 99 Foo 2026", "2 s", "1,5"],
)
@pytest.mark.case("B-23")
def test_retry_after_is_none_when_missing_or_unreadable(value: str | None) -> None:
    assert retry_after_ms(value, NOW_MS) is None


@given(st.text(max_size=40))
def test_retry_after_never_fails_and_never_waits_backwards(value: str) -> None:
    wait_ms = retry_after_ms(value, NOW_MS)

    assert wait_ms is None or wait_ms >= 0
