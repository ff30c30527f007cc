"""What is measured: a knowledge folder, the index built from it, and its labelled texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import msgspec

from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.index_builder import build_index
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.policy.corpus import Corpus, read_corpus

T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """A folder with its index, as a worker would get it."""

    folder: Path
    embedder: WordLlamaEmbedder
    corpus: Corpus
    index: KnowledgeIndex

    def labelled(self, name: str, type_: type[T]) -> list[T]:
        """The lines of a JSON-lines file of the folder; empty when there is no such file."""
        path = self.folder / name
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=type_) for line in lines if line.strip()]


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, by its path inside it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_subject(folder: Path) -> Subject:
    """Read and index the folder, and say how long that took. Raises CorpusRefused."""
    embedder = WordLlamaEmbedder()
    started = perf_counter()
    embedder.load()
    loaded = perf_counter()
    corpus = read_corpus(read_folder(folder))
    index = build_index(corpus, {}, embedder)
    print(
        f"embedder loaded in {loaded - started:.2f} s, {len(corpus.documents)} documents "
        f"({len(corpus.passages)} passages, {len(corpus.examples)} examples) "
        f"indexed in {perf_counter() - loaded:.2f} s"
    )
    return Subject(folder, embedder, corpus, index)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
