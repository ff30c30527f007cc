"""Settings as the limits that decisions take."""

from __future__ import annotations

from collections.abc import Callable

from shared.policy.admission import BurstLimits
from shared.policy.limits import AnswerPlan, DetachedLimits, FlushLimits, PushLimits, TurnLimits
from shared.policy.load_level import LoadLevel, answer_plan
from shared.policy.receiving import ReceiveLimits, served_queues
from shared.policy.sweeping import SweepLimits
from shared.settings import Role, Settings
from shared.telemetry import Metrics
from shared.turn.load_watch import LoadWatch


def burst_limits(settings: Settings) -> BurstLimits:
    """What the burst queue may take: the door of every gateway and every orchestrator must agree on it."""
    return BurstLimits(
        capacity_turns=settings.orchestrator.burst_capacity_turns,
        waiting_turns=settings.orchestrator.waiting_burst_limit,
        wait_ms=settings.turn.stale_after_ms,
    )


def sweep_limits(settings: Settings) -> SweepLimits:
    """The limits that every sweeper of the deployment goes by."""
    turn = settings.turn
    return SweepLimits(
        stale_after_ms=turn.stale_after_ms,
        predecessor_wait_limit_ms=turn.predecessor_wait_limit_ms,
        detached=detached_limits(settings),
        unclaimed_limit_ms=turn.unclaimed_limit_ms,
        attempts_per_turn=turn.attempts_per_turn,
        crashes_per_turn=turn.crashes_per_turn,
        lease_ms=turn.lease_ms,
        reservation_ms=turn.reservation_ms,
    )


def detached_limits(settings: Settings) -> DetachedLimits:
    """How long turns of lower priority may take; whoever accepts and whoever sweeps must agree on it."""
    turn = settings.turn
    return DetachedLimits(normal_ms=turn.normal_limit_ms, low_ms=turn.low_limit_ms)


def receive_limits(settings: Settings) -> ReceiveLimits:
    """What one queue_runner receives, and from which queues."""
    queue = settings.queue_runner
    return ReceiveLimits(
        queues=served_queues(queue.burst_consumer),
        slots=queue.queue_slots,
        consumers=queue.queue_consumers,
        tier_weight=queue.queue_tier_weight,
        poll_s=queue.queue_poll_s,
        paused_interval_ms=queue.queue_paused_interval_ms,
        promoted_after_ms=queue.queue_promoted_after_ms,
    )


def turn_limits(settings: Settings, role: Role) -> TurnLimits:
    """The limits of turns that this role runs."""
    turn, model = settings.turn, settings.model
    return TurnLimits(
        stale_after_ms=turn.stale_after_ms,
        first_text_limit_ms=turn.first_text_limit_ms,
        late_attempt_min_ms=turn.late_attempt_min_ms,
        generation_limit_ms=turn.generation_limit_ms,
        first_event_timeout_ms=model.model_first_event_timeout_ms,
        silence_timeout_ms=model.model_silence_timeout_ms,
        attempts_per_turn=turn.attempts_per_turn,
        retry_backoff_ms=turn.retry_backoff_ms,
        # A function pays for every second it waits; a service waits for nothing.
        retry_in_process_limit_ms=(
            turn.retry_in_process_limit_ms if role == "burst_worker" else None
        ),
        lease_ms=turn.lease_ms,
        renew_interval_ms=settings.renew_interval_ms,
        reader_grace_ms=turn.reader_grace_ms,
        prompt_tokens=turn.prompt_tokens,
        passages_per_prompt=turn.passages_per_prompt,
        passage_score_floor=turn.passage_score_floor,
        source_timeout_ms=turn.source_timeout_ms,
        intent_confidence_floor=turn.intent_confidence_floor,
        cached_history_turns=turn.history_turns,
        cached_history_tokens=turn.history_tokens,
    )


def flush_limits(settings: Settings) -> FlushLimits:
    """The pace of every flusher."""
    turn = settings.turn
    return FlushLimits(tick_ms=turn.flush_tick_ms, tick_max_ms=turn.flush_tick_max_ms)


def push_limits(settings: Settings) -> PushLimits:
    """The bounds of every pusher."""
    return PushLimits(requests_per_endpoint=settings.push.push_requests_per_endpoint)


def normal_plan(settings: Settings) -> AnswerPlan:
    """How turns are answered while nothing is loaded."""
    return AnswerPlan(
        model=settings.model.model_primary,
        max_tokens=settings.turn.max_tokens,
        history_turns=settings.turn.history_turns,
        history_tokens=settings.turn.history_tokens,
    )


def answer_plans(
    settings: Settings, watch: LoadWatch, metrics: Metrics
) -> Callable[[], AnswerPlan]:
    """How turns are answered, read once per turn: the load level shortens and cheapens, and that is counted."""
    normal = normal_plan(settings)

    def plan() -> AnswerPlan:
        level = watch.level
        if level > LoadLevel.NORMAL:
            metrics.count("BrownoutTurns", load_level=level.name.lower())
        return answer_plan(level, normal, settings.model.model_fast)

    return plan
