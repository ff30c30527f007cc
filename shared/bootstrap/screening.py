"""The guardrails that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from shared.adapters.local_guardrail import LocalGuardrail
from shared.bootstrap.adapters import ProcessAdapters
from shared.policy.blocked_phrases import PhraseBook
from shared.ports import Guardrail
from shared.settings import Settings
from shared.telemetry import Metrics
from shared.turn.screening import Screening


def make_screening(
    settings: Settings,
    adapters: ProcessAdapters,
    blocked: Callable[[], tuple[str, ...]],
    metrics: Metrics,
) -> Screening:
    """The guardrails of a process that runs turns; `blocked` gives the phrases of the knowledge index in use."""
    book_of = lru_cache(maxsize=1)(PhraseBook)
    guardrail = settings.guardrail
    is_local = guardrail.guardrail_provider == "local"
    judge: Guardrail
    if is_local:
        judge = LocalGuardrail(lambda: book_of(blocked()), masks_pii=guardrail.pii_masking == "on")
    else:
        judge = adapters.bedrock_guardrail()
    return Screening(
        metrics,
        guardrail=judge,
        book=lambda: book_of(blocked()),
        # The filter between model and readers knows the local phrases already.
        review_characters=0 if is_local else guardrail.guardrail_review_characters,
        fails_open=guardrail.guardrail_on_failure == "open",
    )
