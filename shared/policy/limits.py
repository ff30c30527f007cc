"""The limits that decisions and the turn package are built with; the composition root fills them from settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AnswerPlan:
    """How a turn is answered at the present load level."""

    model: str
    max_tokens: int = 1_024
    history_turns: int = 20
    history_tokens: int = 6_000


@dataclass(frozen=True, kw_only=True)
class TurnLimits:
    """Limits of one turn's life. Clocks start at `ready_at_ms`, those of the model at its request."""

    stale_after_ms: int = 45_000
    first_text_limit_ms: int = 60_000
    late_attempt_min_ms: int = 20_000
    generation_limit_ms: int = 45_000
    first_event_timeout_ms: int = 20_000
    silence_timeout_ms: int = 15_000
    attempts_per_turn: int = 3
    retry_backoff_ms: int = 1_000
    retry_in_process_limit_ms: int | None = None
    """A longer wait hands the turn over to the retry queue; None = every wait is spent in the process."""
    cached_history_turns: int = 20
    cached_history_tokens: int = 6_000
    """The window kept beside the ledger; a plan may show the model less of it, never more."""
    lease_ms: int = 3_000
    renew_interval_ms: int = 1_000
    reader_grace_ms: int = 15_000
    passages_per_prompt: int = 5
    source_timeout_ms: int = 300
    intent_confidence_floor: float = 0.35
    claim_patience_ms: int = 5_000
    """How long a claim is tried while the ledger cannot be asked."""
    settle_patience_ms: int = 45_000
    """How long the end of a turn is tried while the store or the ledger cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class FlushLimits:
    """Pace of the flusher."""

    tick_ms: int = 40
    tick_max_ms: int = 500


@dataclass(frozen=True, kw_only=True)
class PushLimits:
    """Bounds of the pushes of one process."""

    requests_per_endpoint: int = 8
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
