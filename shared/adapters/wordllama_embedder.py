"""Embeddings in this process: WordLlama, whose weights come with its package. Never touches the network."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from shared.adapters.embedding import Vectors
from shared.errors import ConfigurationError

TEXT_LIMIT_CHARACTERS = 4_000
_CONFIG = "l2_supercat"
_DIMENSIONS = 256


class WordLlamaEmbedder:
    """Average of token vectors, about 50 µs for a question. The model is loaded at first use, once, in any thread."""

    name = f"wordllama-{_CONFIG}-{_DIMENSIONS}"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self._model: Any = None
        self._loading = Lock()

    def load(self) -> None:
        """Load now, so that no turn waits for it. Raises ConfigurationError when the package lacks its weights."""
        with self._loading:
            if self._model is None:
                self._model = _load_model()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text; only the first TEXT_LIMIT_CHARACTERS of each count."""
        if self._model is None:
            self.load()
        if not texts:
            return np.zeros((0, _DIMENSIONS), np.float32)
        vectors: Vectors = self._model.embed([_readable(text) for text in texts])
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors /= np.maximum(lengths, np.float32(1e-12))[:, np.newaxis]
        return vectors


def _readable(text: str) -> str:
    """The text as the tokenizer can take it: it refuses lone surrogates, which become question marks."""
    return text[:TEXT_LIMIT_CHARACTERS].encode("utf-8", "replace").decode()


def _load_model() -> Any:
    # The package calls logging.basicConfig at import, which does nothing while the root logger has a handler.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        import wordllama
    finally:
        logging.getLogger().removeHandler(guard)
    try:
        # The wheel keeps its tokenizer where only the cache look-up finds it, hence the package folder as cache.
        return wordllama.WordLlama.load(
            _CONFIG,
            cache_dir=Path(wordllama.__file__).parent,
            dim=_DIMENSIONS,
            disable_download=True,
        )
    except FileNotFoundError as error:
        raise ConfigurationError("wordllama is installed without its weights") from error
