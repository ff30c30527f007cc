"""The sources of knowledge that an answer may draw on."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final

from shared.adapters.index_catalogue import IndexCatalogue, IndexRecommender
from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.opensearch_retriever import OpenSearchRetriever
from shared.adapters.s3_artefacts import connect_s3
from shared.adapters.s3_orders import S3Orders
from shared.adapters.watched_index import WatchedIndex
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.bootstrap.adapters import ProcessAdapters
from shared.policy.sigv4 import Credential
from shared.ports import Retriever
from shared.settings import Settings
from shared.turn.fan_out import SourcePorts

ORDERS_S3_TIMEOUT_MS: Final = 1_000
"""The reader waits for a source's own, shorter deadline only; this frees the thread."""


def make_sources(
    settings: Settings,
    adapters: ProcessAdapters,
    embedder: WordLlamaEmbedder,
    index: WatchedIndex,
    closing: AsyncExitStack,
    credential: Credential | None = None,
) -> SourcePorts:
    """The sources over the index in use and the users' orders, closed with `closing`.

    `credential` None = AWS's default chain.
    """
    aws = settings.aws
    client = connect_s3(
        region=aws.aws_region,
        endpoint_url=aws.aws_endpoint_url,
        timeout_ms=ORDERS_S3_TIMEOUT_MS,
        credential=credential,
    )
    closing.callback(client.close)
    orders = S3Orders(client, aws.knowledge_bucket, aws.orders_prefix)
    closing.callback(orders.close)
    return SourcePorts(
        retriever=_retriever(settings, adapters, embedder, index),
        catalogue=IndexCatalogue(index.current),
        recommender=IndexRecommender(index.current, embedder),
        orders=orders,
    )


def _retriever(
    settings: Settings, adapters: ProcessAdapters, embedder: WordLlamaEmbedder, index: WatchedIndex
) -> Retriever:
    retrieval = settings.retrieval
    if retrieval.retriever == "opensearch":
        api = adapters.opensearch_api(retrieval.opensearch_url, retrieval.opensearch_timeout_ms)
        return OpenSearchRetriever(api, retrieval.opensearch_index, embedder)
    return IndexRetriever(index.current, embedder)
