"""Bring the index up to date with the corpus, or leave it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, Protocol

import msgspec

from shared.errors import MalformedDocument
from shared.policy.corpus import Corpus, CorpusRefused, compare, is_corpus_file, read_corpus

_READERS: Final = 8


class StoredFile(Protocol):
    """A file as it was read."""

    @property
    def body(self) -> bytes:
        """Its content."""
        ...

    @property
    def etag(self) -> str:
        """The name of this state of it."""
        ...


class CorpusFiles(Protocol):
    """The files that people edit; several threads read at once. Raises DependencyUnavailable."""

    def list_files(self) -> Mapping[str, str]:
        """The ETag of each file by name. Raises MalformedDocument when the corpus is too large."""
        ...

    def read_file(self, name: str) -> StoredFile:
        """One file as it is now."""
        ...


class IndexRepository(Protocol):
    """The index in use. Raises DependencyUnavailable."""

    def fingerprints(self) -> Mapping[str, str] | None:
        """The ETags that it was built from, None without a usable index."""
        ...

    def replace(self, corpus: Corpus, fingerprints: Mapping[str, str]) -> int:
        """Build and put in use, as a whole or not at all; answers its size in bytes.

        Raises MalformedDocument when it would be too large for its readers.
        """
        ...


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a document; line 0 = the document as a whole."""

    document: str
    line: int
    reason: str


class RefreshReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a refresh did. Names are paths below `documents/`; counts are of the new index, 0 unless replaced."""

    status: Literal["replaced", "unchanged", "refused"]
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    documents: int = 0
    passages: int = 0
    examples: int = 0
    index_bytes: int = 0
    faults: tuple[Fault, ...] = ()


def refresh_index(files: CorpusFiles, index: IndexRepository) -> RefreshReport:
    """Compare, read, check, and only then replace; running it again does nothing until a file changes.

    A corpus with any fault is refused as a whole, every fault named, and the old index stays. Raises
    DependencyUnavailable, the old index staying as well.
    """
    try:
        listed = {name: etag for name, etag in files.list_files().items() if is_corpus_file(name)}
        before = index.fingerprints()
        if before is not None and compare(before, listed).is_empty:
            return RefreshReport(status="unchanged")
        # The ETags that came with the bytes, not the listed ones: a file may have changed in between.
        read = _read_all(files, sorted(listed))
        corpus = read_corpus({name: file.body for name, file in read.items()})
        after = {name: file.etag for name, file in read.items()}
        index_bytes = index.replace(corpus, after)
    except CorpusRefused as refusal:
        return _refused(refusal.faults)
    except MalformedDocument as fault:
        return _refused((fault,))
    change = compare(before or {}, after)
    return RefreshReport(
        status="replaced",
        added=change.added,
        changed=change.changed,
        removed=change.removed,
        documents=len(corpus.documents),
        passages=len(corpus.passages),
        examples=len(corpus.examples),
        index_bytes=index_bytes,
    )


def _read_all(files: CorpusFiles, names: Sequence[str]) -> dict[str, StoredFile]:
    """Every file by name, several at a time; the first failure is raised and the rest is not begun."""
    readers = ThreadPoolExecutor(_READERS, thread_name_prefix="corpus")
    try:
        return dict(zip(names, readers.map(files.read_file, names), strict=True))
    finally:
        readers.shutdown(cancel_futures=True)


def _refused(faults: tuple[MalformedDocument, ...]) -> RefreshReport:
    named = tuple(Fault(fault.document, fault.line, fault.reason) for fault in faults)
    return RefreshReport(status="refused", faults=named)
