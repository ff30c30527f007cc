"""Port IntentClassifier by the linear model in the knowledge index."""

from __future__ import annotations

from collections.abc import Callable

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.intent_features import IntentFeatures
from shared.contracts.knowledge import GENERAL_INTENT, Intent
from shared.policy.fanout import settle_intent


class LinearIntentClassifier:
    """Computes in the event loop: some tenths of a millisecond, which a thread would only make longer."""

    def __init__(self, current_index: Callable[[], KnowledgeIndex], embedder: Embedder) -> None:
        self._current_index = current_index
        self._embedder = embedder

    async def classify(self, text: str) -> Intent:
        """The likeliest label; `general` below the index's floor, and with confidence 0 for a blank text.

        Raises DependencyUnavailable while no index is loaded.
        """
        index = self._current_index()
        if not text.strip():
            return Intent(GENERAL_INTENT, 0.0)
        rows = IntentFeatures(index.lexicon, self._embedder).rows([text])
        return settle_intent(index.intents.guess(rows)[0], index.intents.floor)
