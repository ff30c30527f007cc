"""How an error ends a turn."""

from __future__ import annotations

from typing import get_args

import pytest

from shared.contracts.server_frames import FailedCode
from shared.errors import (
    ConfigurationError,
    DependencyUnavailable,
    GuardrailBlocked,
    ItemTooLarge,
    MalformedMessage,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    UnsupportedTurn,
)
from shared.policy.failed_ends import MESSAGES, declined_end, end_of_error, failed_end


@pytest.mark.parametrize(
    ("error", "code", "retryable", "dead_letter"),
    [
        (ModelOverloaded("x"), "model_overloaded", True, None),
        (ModelRateLimited("x"), "model_rate_limited", True, None),
        (ModelTimeout("x"), "model_timeout", True, None),
        (ModelDisconnected("x"), "model_disconnected", True, None),
        (DependencyUnavailable("x"), "internal", True, "failed"),
        (ModelRejected("x"), "model_rejected", False, "failed"),
        (GuardrailBlocked("x"), "blocked", False, None),
        (ItemTooLarge("x"), "internal", False, "not_stored"),
        (MalformedMessage("x", b""), "internal", False, "malformed"),
        (UnsupportedTurn("x"), "internal", False, "malformed"),
        (ConfigurationError("x"), "internal", False, "failed"),
        (ZeroDivisionError("a bug"), "internal", False, "failed"),
    ],
)
def test_an_errors_type_decides_code_retry_and_evidence(
    error: Exception, code: str, retryable: bool, dead_letter: str | None
) -> None:
    end = end_of_error(error, retry_after_ms=5)

    assert (end.code, end.retryable, end.dead_letter) == (code, retryable, dead_letter)
    assert end.retry_after_ms == 5
    assert end.retract == (code == "blocked")


def test_a_declined_reply_is_neither_retryable_nor_evidence() -> None:
    end = declined_end("refusal")

    assert (end.code, end.stop_reason) == ("model_rejected", "refusal")
    assert (end.retryable, end.dead_letter) == (False, None)


def test_every_code_has_words_for_people() -> None:
    assert set(MESSAGES) == set(get_args(FailedCode))
    assert failed_end("deadline_exceeded", retry_after_ms=9).retry_after_ms == 9
    assert failed_end("deadline_exceeded").retryable
    assert not failed_end("internal").retryable
