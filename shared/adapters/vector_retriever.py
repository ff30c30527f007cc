"""Port Retriever by cosine over the knowledge index, raised for documents that the question names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.contracts.knowledge import Passage
from shared.policy.names import said_names

# More than the distance between the best and an average passage, so that a named title always comes first, yet the
# named document's own passages keep their order.
NAME_BOOST = 0.5


class VectorRetriever:
    """Computes in the event loop: about 0.1 ms for a hundred passages."""

    def __init__(self, current_index: Callable[[], KnowledgeIndex], embedder: Embedder) -> None:
        self._current_index = current_index
        self._embedder = embedder

    async def search(self, text: str, limit: int) -> Sequence[Passage]:
        """The `limit` best passages, best first; none for a blank text.

        Scores are cosine plus NAME_BOOST when the document is named. Raises DependencyUnavailable while no index
        is loaded.
        """
        index = self._current_index()
        if not text.strip() or limit < 1:
            return ()
        scores = index.vectors @ self._embedder.embed([text])[0]
        named = {
            row
            for name in said_names(text, index.longest_name_words)
            for row in index.rows_by_name.get(name, ())
        }
        scores[list(named)] += np.float32(NAME_BOOST)
        best = np.argpartition(-scores, min(limit, len(scores)) - 1)[:limit]
        ranked = sorted(best.tolist(), key=lambda row: (-scores[row], row))
        return tuple(
            Passage(
                id=entry.id,
                title=entry.title,
                text=entry.text,
                score=float(scores[row]),
                source_id=entry.source_id,
            )
            for row in ranked
            for entry in (index.passages[row],)
        )
