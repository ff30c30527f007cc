"""The limits that a deployment has without any setting, for tests to change one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from shared.bootstrap import limits as bootstrap
from shared.policy.limits import AnswerPlan, FlushLimits, PushLimits, TurnLimits
from shared.policy.receiving import ReceiveLimits
from shared.policy.sweeping import SweepLimits
from shared.settings import Settings

_SETTINGS = Settings()


def turn_limits(**changes: Any) -> TurnLimits:
    """Of a process that is not a function."""
    return replace(bootstrap.turn_limits(_SETTINGS, "orchestrator"), **changes)


def sweep_limits(**changes: Any) -> SweepLimits:
    """Of every sweeper."""
    return replace(bootstrap.sweep_limits(_SETTINGS), **changes)


def flush_limits(**changes: Any) -> FlushLimits:
    """Of every flusher."""
    return replace(bootstrap.flush_limits(_SETTINGS), **changes)


def push_limits(**changes: Any) -> PushLimits:
    """Of every pusher."""
    return replace(bootstrap.push_limits(_SETTINGS), **changes)


def answer_plan(model: str, **changes: Any) -> AnswerPlan:
    """At the normal load level, with another model's name."""
    return replace(bootstrap.normal_plan(_SETTINGS), model=model, **changes)


def receive_limits(**changes: Any) -> ReceiveLimits:
    """Of a queue_runner beside a Lambda that drains burst and retry."""
    return msgspec.structs.replace(bootstrap.receive_limits(_SETTINGS), **changes)
