"""Port IntentClassifier by the linear model in the knowledge index."""

from __future__ import annotations

from collections.abc import Callable

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.intent_training import intent_features
from shared.contracts.knowledge import GENERAL_INTENT, Intent


class LinearIntentClassifier:
    """Computes in the event loop: about 0.1 ms a question, which a thread would only make longer."""

    def __init__(self, current_index: Callable[[], KnowledgeIndex], embedder: Embedder) -> None:
        self._current_index = current_index
        self._embedder = embedder

    async def classify(self, text: str) -> Intent:
        """The likeliest label; `general` with confidence 0 for a blank text.

        Raises DependencyUnavailable while no index is loaded.
        """
        intents = self._current_index().intents
        if not text.strip():
            return Intent(GENERAL_INTENT, 0.0)
        shares = intents.probabilities(intent_features([text], self._embedder))[0]
        best = int(shares.argmax())
        return Intent(intents.labels[best], float(shares[best]))
