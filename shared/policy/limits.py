"""The limits that decisions and the turn package are built with; the composition root fills them from settings.

A default stands here only for what is no setting.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.contracts.turns import Priority


@dataclass(frozen=True, kw_only=True)
class AnswerPlan:
    """How a turn is answered at the present load level."""

    model: str
    max_tokens: int
    history_turns: int
    history_tokens: int


@dataclass(frozen=True, kw_only=True)
class DetachedLimits:
    """How long after acceptance an unanswered turn with a queue of its own is given up, ms."""

    normal_ms: int
    low_ms: int

    def of(self, priority: Priority) -> int:
        """The limit of a priority; `high` has no queue of its own and counts as normal."""
        return self.low_ms if priority == "low" else self.normal_ms


@dataclass(frozen=True, kw_only=True)
class TurnLimits:
    """Limits of one turn's life. Clocks start at `ready_at_ms`, those of the model at its request."""

    stale_after_ms: int
    first_text_limit_ms: int
    late_attempt_min_ms: int
    generation_limit_ms: int
    first_event_timeout_ms: int
    silence_timeout_ms: int
    attempts_per_turn: int
    retry_backoff_ms: int
    retry_in_process_limit_ms: int | None
    """A longer wait hands the turn over to the retry queue; None = every wait is spent in the process."""
    cached_history_turns: int
    cached_history_tokens: int
    """The window kept beside the ledger; a plan may show the model less of it, never more."""
    lease_ms: int
    renew_interval_ms: int
    reader_grace_ms: int
    prompt_tokens: int
    """Bound of the whole prompt by estimate; rules and question are in it whatever they cost."""
    passages_per_prompt: int
    passage_score_floor: float
    source_timeout_ms: int
    intent_confidence_floor: float
    similar_per_prompt: int = 5
    orders_per_prompt: int = 5
    claim_patience_ms: int = 5_000
    """How long a claim is tried while the ledger cannot be asked."""
    settle_patience_ms: int = 45_000
    """How long the end of a turn is tried while the store or the ledger cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class FlushLimits:
    """Pace of the flusher."""

    tick_ms: int
    tick_max_ms: int


@dataclass(frozen=True, kw_only=True)
class PushLimits:
    """Bounds of the pushes of one process."""

    requests_per_endpoint: int
    batch_bytes: int = 524_288
    backlog_bytes: int = 262_144
    """Per connection; a longer backlog is dropped, the reader resumes from the log."""
    hold_ms: int = 100
    """First hold after 429 or a failed request; doubled, with full jitter, up to `hold_max_ms`."""
    hold_max_ms: int = 2_000
    give_up_after_ms: int = 10_000
    """A connection that took nothing for this long loses its backlog."""
    young_gone_retries: int = 2
    """A 410 before anything was ever delivered is asked again so often: the connection may just be opening."""
