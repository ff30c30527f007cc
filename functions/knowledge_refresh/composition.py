"""The composition root of knowledge_refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from functions.knowledge_refresh.refresh import RefreshReport, refresh_index
from shared.bootstrap.knowledge import make_knowledge_repository
from shared.clock import SystemClock
from shared.settings import load_settings
from shared.telemetry import Metrics, configure_logging

ROLE: Final = "knowledge_refresh"


@dataclass(frozen=True)
class KnowledgeRefresh:
    """What the handler needs."""

    refresh: Callable[[], RefreshReport]
    metrics: Metrics


def build_knowledge_refresh() -> KnowledgeRefresh:
    """Wire the function; opens no connection yet. Raises ConfigurationError when a setting is missing."""
    settings, clock = load_settings(ROLE), SystemClock()
    configure_logging(ROLE, settings.telemetry.log_level, clock)
    artefacts, repository = make_knowledge_repository(settings)
    return KnowledgeRefresh(
        refresh=partial(refresh_index, artefacts, repository),
        metrics=Metrics(settings.telemetry.metrics_namespace, ROLE, clock),
    )
