"""The composition root of knowledge_refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from functions.knowledge_refresh.refresh import RefreshReport, refresh_index
from shared.bootstrap.knowledge import make_knowledge_repository
from shared.settings import Settings


@dataclass(frozen=True)
class KnowledgeRefresh:
    """What the handler needs."""

    refresh: Callable[[], RefreshReport]
    metrics_namespace: str


def build_knowledge_refresh(settings: Settings) -> KnowledgeRefresh:
    """Wire the function; opens no connection yet."""
    artefacts, repository = make_knowledge_repository(settings)
    return KnowledgeRefresh(
        refresh=partial(refresh_index, artefacts, repository),
        metrics_namespace=settings.telemetry.metrics_namespace,
    )
