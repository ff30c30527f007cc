"""Who judges what a user wants."""

from __future__ import annotations

from shared.adapters.fallback_intent_classifier import FallbackIntentClassifier
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.adapters.watched_index import WatchedIndex
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.bootstrap.adapters import ProcessAdapters
from shared.clock import Clock
from shared.ports import IntentClassifier
from shared.settings import Settings
from shared.telemetry import Metrics


def make_classifier(
    settings: Settings,
    adapters: ProcessAdapters,
    embedder: WordLlamaEmbedder,
    index: WatchedIndex,
    *,
    clock: Clock,
    metrics: Metrics,
) -> IntentClassifier:
    """The classifier of the settings; that of the index stands in for one that can fail."""
    local = LinearIntentClassifier(index.current, embedder)
    if settings.intent.intent_classifier == "index":
        return local
    return FallbackIntentClassifier(
        adapters.sagemaker_classifier(),
        local,
        clock=clock,
        metrics=metrics,
        rest_ms=settings.intent.sagemaker_rest_ms,
    )
