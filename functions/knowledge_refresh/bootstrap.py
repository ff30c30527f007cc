"""The composition root of knowledge_refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from functions.knowledge_refresh.refresh import RefreshReport, refresh_index
from shared.adapters.s3_artefacts import S3Artefacts, connect_s3
from shared.adapters.s3_index_repository import S3IndexRepository
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.settings import Settings

# A refresh has no reader who waits: a slow S3 is better than an alarm.
_S3_TIMEOUT_MS = 10_000


@dataclass(frozen=True)
class KnowledgeRefresh:
    """What the handler needs."""

    refresh: Callable[[], RefreshReport]
    metrics_namespace: str


def build_knowledge_refresh(settings: Settings) -> KnowledgeRefresh:
    """Wire the function; opens no connection yet."""
    client = connect_s3(
        region=settings.aws.aws_region,
        endpoint_url=settings.aws.aws_endpoint_url,
        timeout_ms=_S3_TIMEOUT_MS,
    )
    artefacts = S3Artefacts(client, settings.aws.knowledge_bucket)
    repository = S3IndexRepository(artefacts, WordLlamaEmbedder())
    return KnowledgeRefresh(
        refresh=partial(refresh_index, artefacts, repository),
        metrics_namespace=settings.telemetry.metrics_namespace,
    )
