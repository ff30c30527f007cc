"""Port Retriever over the knowledge index in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.contracts.knowledge import Passage
from shared.policy.plain_reading import search_reading


class IndexRetriever:
    """Computes in the event loop: about 0.3 ms for four hundred passages."""

    def __init__(self, current_index: Callable[[], KnowledgeIndex], embedder: Embedder) -> None:
        self._current_index = current_index
        self._embedder = embedder

    async def search(self, text: str, limit: int) -> Sequence[Passage]:
        """The `limit` best passages, best first; none for a blank text. Scores as in PassageSearch.

        Raises DependencyUnavailable while no index is loaded.
        """
        index = self._current_index()
        if not text.strip() or limit < 1:
            return ()
        reading = search_reading(text, index.lexicon)
        return index.search.best(reading, self._embedder.embed([reading])[0], limit)
