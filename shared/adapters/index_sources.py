"""Where a worker's index comes from."""

from __future__ import annotations

import mmap
import tempfile
from typing import Protocol, assert_never

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex, decode_index
from shared.adapters.s3_artefacts import Artefact, NoArtefact, S3Artefacts
from shared.errors import DependencyUnavailable


class IndexSource(Protocol):
    """A place that holds the index in use. Calls block: an event loop runs them in a thread."""

    def fetch(self, known_version: str | None) -> tuple[KnowledgeIndex, str] | None:
        """The index and its version, None when it is still `known_version`.

        Raises DependencyUnavailable when there is none or it cannot be had, IncompatibleIndex when it is of no use.
        """
        ...


class S3IndexSource:
    """The index in the bucket; its version is its ETag."""

    def __init__(self, artefacts: S3Artefacts, embedder: Embedder) -> None:
        self._artefacts = artefacts
        self._embedder = embedder

    def fetch(self, known_version: str | None) -> tuple[KnowledgeIndex, str] | None:
        """Download the index if it changed, and map it from a file without a name, which dies with the mapping."""
        match self._artefacts.read_index(known_version):
            case NoArtefact.UNCHANGED:
                return None
            case NoArtefact.ABSENT:
                raise DependencyUnavailable("the bucket holds no index yet")
            case Artefact(body, etag):
                index = decode_index(_mapped(body), self._embedder.name)
                # Computed here, in the caller's thread, rather than in the first turn's search.
                _ = index.search, index.lexicon, index.shelf
                return index, etag
            case unknown:
                assert_never(unknown)


def _mapped(body: bytes) -> bytes | mmap.mmap:
    """The bytes in the page cache instead of the heap; as they are when nothing can be written."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(body)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return body
