"""The knowledge index: read by workers, written by the refresh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.adapters.index_artefact import KnowledgeIndex, index_key
from shared.adapters.index_sources import S3IndexSource
from shared.adapters.opensearch_api import OpenSearchApi
from shared.adapters.opensearch_mirror import OpenSearchMirror
from shared.adapters.s3_artefacts import S3Artefacts, connect_s3
from shared.adapters.s3_index_repository import S3IndexRepository
from shared.adapters.watched_index import WatchedIndex
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.clock import Clock, SystemClock
from shared.policy.sigv4 import Credential
from shared.settings import Settings

S3_TIMEOUT_MS: Final = 5_000
REFRESH_S3_TIMEOUT_MS: Final = 10_000
"""A refresh has no reader who waits: a slow S3 is better than an alarm."""


async def open_knowledge(
    settings: Settings,
    clock: Clock,
    closing: AsyncExitStack,
    credential: Credential | None = None,
) -> tuple[WordLlamaEmbedder, WatchedIndex]:
    """The embedder and the current index, loaded; run the index's watch to follow refreshes.

    `credential` None = AWS's default chain. Raises DependencyUnavailable when no index can be read.
    """
    aws = settings.aws
    client = connect_s3(
        region=aws.aws_region,
        endpoint_url=aws.aws_endpoint_url,
        timeout_ms=S3_TIMEOUT_MS,
        credential=credential,
    )
    closing.callback(client.close)
    embedder = WordLlamaEmbedder()
    index = WatchedIndex(
        S3IndexSource(
            S3Artefacts(client, aws.knowledge_bucket, index_key(embedder.name)), embedder
        ),
        clock,
        poll_interval_ms=aws.index_poll_ms,
    )
    await asyncio.gather(asyncio.to_thread(embedder.load), index.refresh())
    return embedder, index


def make_knowledge_repository(settings: Settings) -> tuple[S3Artefacts, S3IndexRepository]:
    """The documents' bucket and the index kept in it; no connection is opened yet."""
    aws = settings.aws
    client = connect_s3(
        region=aws.aws_region,
        endpoint_url=aws.aws_endpoint_url,
        timeout_ms=REFRESH_S3_TIMEOUT_MS,
    )
    embedder = WordLlamaEmbedder()
    artefacts = S3Artefacts(client, aws.knowledge_bucket, index_key(embedder.name))
    return artefacts, S3IndexRepository(artefacts, embedder, _mirror(settings))


def _mirror(settings: Settings) -> Callable[[KnowledgeIndex], None] | None:
    retrieval = settings.retrieval
    if retrieval.retriever != "opensearch":
        return None

    async def copy(index: KnowledgeIndex) -> None:
        http = HttpSession()
        api = OpenSearchApi(
            retrieval.opensearch_url,
            http=http,
            credentials=AwsCredentials(settings.aws.aws_region),
            clock=SystemClock(),
            timeout_ms=retrieval.opensearch_write_timeout_ms,
        )
        try:
            await OpenSearchMirror(api, retrieval.opensearch_index).replace(index)
        finally:
            await http.close()

    return lambda index: asyncio.run(copy(index))
