"""A message as a row of numbers: what it means (embedding, and pairs of its numbers), how it is worded and spelled.

All look at the message as the lexicon reads it, so that languages and names of documents fall together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.adapters.embedding import Embedder, Vectors
from shared.policy.lexicon import Lexicon
from shared.policy.spelling import SPELLING_BUCKETS, spelling_features
from shared.policy.wording import WORDING_BUCKETS, wording_features

TEXT_LIMIT_CHARACTERS = 500
"""What a user wants stands at the beginning, and a call must stay below a millisecond."""
# Chosen by leaving out one training example at a time (ops/evaluation/intents.py prints that accuracy).
_EMBEDDING_WEIGHT = 0.4
_WORDING_WEIGHT = 1.3
_SPELLING_WEIGHT = 0.9
_COVER_WEIGHT = 0.5
_COVER_FEATURES = 2
_PAIRED_DIMENSIONS = 128
"""The first dimensions of an embedding say the most; all would make too long a row."""


class IntentFeatures:
    """Reads messages for one index."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        paired = min(_PAIRED_DIMENSIONS, embedder.dimensions)
        one, other = self._pairs = np.triu_indices(paired)
        # A pair stands for itself and its mirror image.
        self._twice = np.where(one == other, 1, np.sqrt(2)).astype(np.float32)

    def rows(self, texts: Sequence[str]) -> Vectors:
        """One row per text; the first TEXT_LIMIT_CHARACTERS of each count."""
        read = [self._lexicon.read(text[:TEXT_LIMIT_CHARACTERS]) for text in texts]
        wording_at = self._embedder.dimensions
        spelling_at = wording_at + WORDING_BUCKETS
        cover_at = spelling_at + SPELLING_BUCKETS
        pairs_at = cover_at + _COVER_FEATURES
        rows = np.zeros((len(texts), pairs_at + len(self._pairs[0])), np.float32)
        joined = [" ".join(words) for words in read]
        embedded = self._embedder.embed(joined)
        rows[:, :wording_at] = embedded * np.float32(_EMBEDDING_WEIGHT)
        rows[:, pairs_at:] = self._products(embedded)
        for row, words, text in zip(rows, read, joined, strict=True):
            for bucket, weight in wording_features(words).items():
                row[wording_at + bucket] = weight * _WORDING_WEIGHT
            for bucket, weight in spelling_features(text).items():
                row[spelling_at + bucket] = weight * _SPELLING_WEIGHT
            known = self._lexicon.known_share(words)
            row[cover_at] = known * _COVER_WEIGHT
            row[cover_at + 1] = (known == 0) * _COVER_WEIGHT
        return rows

    def _products(self, embedded: Vectors) -> Vectors:
        """Products of an embedding's first numbers by which a linear model bends; their length is 1, or 0 for zeros.

        The dot product of two rows is the square of the cosine that their embeddings' beginnings have.
        """
        one, other = self._pairs
        start = embedded[:, :_PAIRED_DIMENSIONS]
        lengths = np.linalg.norm(start, axis=1, keepdims=True)
        unit = start / np.maximum(lengths, np.float32(1e-9))
        products: Vectors = unit[:, one] * unit[:, other] * self._twice
        return products
