"""HTTP status of what can become of a message (PROTOCOL §6). Pure."""

from __future__ import annotations

_REJECTED = {
    "busy": 409,
    "message_too_large": 413,
    "message_empty": 400,
    "invalid_text": 400,
    "rate_limited": 429,
    "session_limited": 429,
}
_FAILED = {
    "blocked": 422,
    "model_rejected": 422,
    "model_overloaded": 503,
    "model_rate_limited": 503,
    "model_timeout": 504,
    "deadline_exceeded": 504,
}
CANCELLED = 409
EXPIRED = 503
STILL_RUNNING = 504


def rejected_status(code: str) -> int:
    """Of a message that was not accepted: 503 for every reason that passes by itself."""
    return _REJECTED.get(code, 503)


def failed_status(code: str) -> int:
    """Of a turn that failed: 500 for every reason that is ours."""
    return _FAILED.get(code, 500)
