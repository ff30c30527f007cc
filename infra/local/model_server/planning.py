"""What one call will do, decided before its first byte: pure, so every fault is a table entry."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace

from infra.local.model_server.scripting import Script
from infra.local.model_server.texts import scripted_tokens


class Ending(enum.Enum):
    """How the bytes of a call end."""

    COMPLETE = "complete"
    ERROR_EVENT = "error_event"
    RESET = "reset"  # TCP reset
    CUT = "cut"  # a clean end of the response without the closing events
    STALL = "stall"  # silence until the client leaves


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as the service words it."""

    status: int
    error_type: str
    message: str
    retry_after_s: int | None = None


OVERLOADED = Refusal(529, "overloaded_error", "Overloaded")
RATE_LIMITED = Refusal(
    429, "rate_limit_error", "This request would exceed the rate limit for your organization."
)
INVALID = Refusal(400, "invalid_request_error", "messages: the script asked for this error")


@dataclass(frozen=True, slots=True)
class Plan:
    """One call from first to last byte; times in seconds.

    `pieces` are the text deltas that are sent (already cut at the fault). `has_block` False sends no
    content block at all, as the real service does for an immediate refusal.
    """

    pieces: tuple[str, ...] = ()
    stop_reason: str = "end_turn"
    has_block: bool = True
    headers_after_s: float = 0.0
    pings_for_s: float = 0.0
    first_after_s: float = 0.0
    interval_s: float = 0.0
    ending: Ending = Ending.COMPLETE
    refusal: Refusal | None = None  # answered instead of a stream
    late_error: Refusal | None = None  # sent as an event when the ending is ERROR_EVENT

    @property
    def is_fault(self) -> bool:
        """Whether the call ends in a way that no client may take for an answer."""
        return self.refusal is not None or self.ending is not Ending.COMPLETE


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast unscripted answers come; `tokens_per_s` 0 = all at once."""

    ttft_ms: int = 300
    tokens_per_s: float = 50


def plan_answer(text: str, max_tokens: int, pace: Pace) -> Plan:
    """A call that speaks `text`, about a word a token, cut at `max_tokens`."""
    return _limited(
        Plan(
            pieces=tuple(re.findall(r"\s*\S+|\s+\Z", text)),
            first_after_s=pace.ttft_ms / 1_000,
            interval_s=_interval_s(pace.tokens_per_s),
        ),
        max_tokens,
    )


def plan_complaint(sentence: str) -> Plan:
    """A call that says why it follows no script: in words, for whoever typed it, and never as a complete answer."""
    return Plan(pieces=(sentence,), stop_reason="refusal")


def plan_script(script: Script, max_tokens: int) -> Plan:
    """A call that follows a script; whether the fault still applies is the caller's to decide."""
    refusal = _refusal(script)
    if refusal is not None:
        return Plan(refusal=refusal)
    count, ending, stop_reason = _ending(script)
    plan = Plan(
        pieces=scripted_tokens(script.text, count, script.seed),
        stop_reason=stop_reason,
        has_block=script.fault != "refusal" or count > 0,
        headers_after_s=script.fault_count / 1_000 if script.fault == "slow_start_ms" else 0.0,
        pings_for_s=script.fault_count if script.fault == "ping_only_s" else 0.0,
        first_after_s=script.ttft_ms / 1_000,
        interval_s=_interval_s(script.tokens_per_s),
        ending=ending,
        late_error=_late_error(script),
    )
    return plan if ending is not Ending.COMPLETE else _limited(plan, max_tokens)


def _refusal(script: Script) -> Refusal | None:
    match script.fault:
        case "overloaded":
            return OVERLOADED
        case "rate_limit":
            return _with_hint(RATE_LIMITED, script.retry_after_s)
        case "invalid_request":
            return INVALID
    return None


def _late_error(script: Script) -> Refusal | None:
    return {"overloaded_after": OVERLOADED, "rate_limit_after": RATE_LIMITED}.get(
        script.fault or ""
    )


def _ending(script: Script) -> tuple[int, Ending, str]:
    """(deltas that are sent, ending, stop reason)."""
    cut = min(script.fault_count, script.tokens)
    match script.fault:
        case "overloaded_after" | "rate_limit_after":
            return cut, Ending.ERROR_EVENT, ""
        case "abort_after":
            return cut, Ending.RESET, ""
        case "end_after":
            return cut, Ending.CUT, ""
        case "stall_after":
            return cut, Ending.STALL, ""
        case "refusal":
            return cut, Ending.COMPLETE, "refusal"
        case "max_tokens":
            return script.tokens, Ending.COMPLETE, "max_tokens"
        case "empty":
            return 0, Ending.COMPLETE, "end_turn"
    return script.tokens, Ending.COMPLETE, "end_turn"


def _with_hint(refusal: Refusal, retry_after_s: int | None) -> Refusal:
    return replace(refusal, retry_after_s=retry_after_s)


def _limited(plan: Plan, max_tokens: int) -> Plan:
    if len(plan.pieces) <= max_tokens:
        return plan
    return replace(plan, pieces=plan.pieces[:max_tokens], stop_reason="max_tokens")


def _interval_s(tokens_per_s: float) -> float:
    return 0.0 if tokens_per_s == 0 else 1.0 / tokens_per_s
