"""How an error ends a turn: its code, the words for people, whether trying again makes sense, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from shared.contracts.dead_letters import DeadLetterClass
from shared.contracts.server_frames import FailedCode
from shared.errors import (
    GuardrailBlocked,
    ItemTooLarge,
    MalformedMessage,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    TransientError,
    UnsupportedTurn,
)

MESSAGES: MappingProxyType[FailedCode, str] = MappingProxyType(
    {
        "model_overloaded": "The assistant is very busy right now. Please try again in a moment.",
        "model_rate_limited": "The assistant is at its limit right now. Please try again later.",
        "model_timeout": "The assistant took too long to answer. Please try again.",
        "model_disconnected": "The connection to the assistant broke off. Please try again.",
        "model_rejected": "The assistant cannot answer this message.",
        "blocked": "This cannot be answered here. Please ask in other words.",
        "deadline_exceeded": "The answer did not come in time. Please try again.",
        "attempts_exhausted": "The answer failed several times. Please try again later.",
        "internal": "Something went wrong on our side. Please try again later.",
    }
)
_RETRYABLE: frozenset[FailedCode] = frozenset(
    {
        "model_overloaded",
        "model_rate_limited",
        "model_timeout",
        "model_disconnected",
        "deadline_exceeded",
    }
)
_CODES: tuple[tuple[type[Exception], FailedCode], ...] = (
    (ModelOverloaded, "model_overloaded"),
    (ModelRateLimited, "model_rate_limited"),
    (ModelTimeout, "model_timeout"),
    (ModelDisconnected, "model_disconnected"),
    (ModelRejected, "model_rejected"),
    (GuardrailBlocked, "blocked"),
)


@dataclass(frozen=True, kw_only=True)
class FailedEnd:
    """The content of `chat.response.failed`, and the dead letter's class when it is a failure of ours."""

    code: FailedCode
    message: str
    retryable: bool
    retry_after_ms: int | None = None
    retract: bool = False
    stop_reason: str | None = None
    dead_letter: DeadLetterClass | None = None


def failed_end(code: FailedCode, *, retry_after_ms: int | None = None) -> FailedEnd:
    """The end with `code` that is no failure of ours."""
    return FailedEnd(
        code=code,
        message=MESSAGES[code],
        retryable=code in _RETRYABLE,
        retry_after_ms=retry_after_ms,
    )


def declined_end(stop_reason: str) -> FailedEnd:
    """The model ended its reply without an answer: counted, neither retried nor a dead letter."""
    return FailedEnd(
        code="model_rejected",
        message=MESSAGES["model_rejected"],
        retryable=False,
        stop_reason=stop_reason,
    )


def end_of_error(error: Exception, *, retry_after_ms: int | None = None) -> FailedEnd:
    """The end that `error` leads to once it is not retried. Whatever nobody classified is a bug: `internal`."""
    code = _code_of(error)
    return FailedEnd(
        code=code,
        message=MESSAGES[code],
        retryable=isinstance(error, TransientError) or code in _RETRYABLE,
        retry_after_ms=retry_after_ms,
        retract=code == "blocked",
        dead_letter=_evidence_of(error, code),
    )


def _code_of(error: Exception) -> FailedCode:
    for error_type, code in _CODES:
        if isinstance(error, error_type):
            return code
    return "internal"


def _evidence_of(error: Exception, code: FailedCode) -> DeadLetterClass | None:
    if isinstance(error, ItemTooLarge):
        return "not_stored"
    if isinstance(error, MalformedMessage | UnsupportedTurn):
        return "malformed"
    if code == "internal" or isinstance(error, ModelRejected):
        return "failed"
    return None
