"""The index in the bucket as its writer sees it: what it was built from, and how it is replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex, decode_index, encode_index
from shared.adapters.index_builder import build_index
from shared.adapters.s3_artefacts import INDEX_LIMIT_BYTES, Artefact, S3Artefacts
from shared.errors import IncompatibleIndex, MalformedDocument
from shared.policy.corpus import Corpus


class S3IndexRepository:
    """Reads and replaces the index in use. Raises DependencyUnavailable when S3 fails."""

    def __init__(
        self,
        artefacts: S3Artefacts,
        embedder: Embedder,
        mirror: Callable[[KnowledgeIndex], None] | None = None,
    ) -> None:
        """`mirror` gets every new index before it is in use here, so that a failed copy is tried again."""
        self._artefacts = artefacts
        self._embedder = embedder
        self._mirror = mirror

    def fingerprints(self) -> Mapping[str, str] | None:
        """The state of the corpus that the index in use was built from; None without an index of use to readers."""
        try:
            found = self._artefacts.read_index(None)
            if not isinstance(found, Artefact):
                return None
            return decode_index(found.body, self._embedder.name).fingerprints
        except IncompatibleIndex:
            return None

    def replace(self, corpus: Corpus, fingerprints: Mapping[str, str]) -> int:
        """Build the index of a corpus and put it in use in one step; answers its size in bytes.

        The old one stays when anything fails. Raises MalformedDocument above INDEX_LIMIT_BYTES.
        """
        index = build_index(corpus, fingerprints, self._embedder)
        body = encode_index(index)
        if len(body) > INDEX_LIMIT_BYTES:
            reason = f"makes an index of {len(body)} bytes, more than {INDEX_LIMIT_BYTES}"
            raise MalformedDocument("corpus", 0, reason)
        if self._mirror is not None:
            self._mirror(index)
        self._artefacts.replace_index(body)
        return len(body)
