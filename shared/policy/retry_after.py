"""What a `Retry-After` header says."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


def retry_after_ms(value: str | None, now_ms: int) -> int | None:
    """The wait in milliseconds, 0 for a date that has passed; None when missing or unreadable.

    Takes seconds (a fraction included) or an HTTP date, and does not cap: whether a wait fits is the caller's
    decision. `now_ms` epoch milliseconds.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return round(float(text) * 1000)
    try:
        at = parsedate_to_datetime(text)
        if at.tzinfo is None:  # "-0000": UTC without a statement about the sender's zone
            at = at.replace(tzinfo=UTC)
        return max(0, int(at.timestamp() * 1000) - now_ms)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
