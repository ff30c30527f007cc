"""A message as a row of numbers: what it means (embedding), how it is worded, how it is spelled.

All three look at the message as the lexicon reads it, so that languages and names of documents fall together.
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
_EMBEDDING_WEIGHT = 0.6
_WORDING_WEIGHT = 1.0
_SPELLING_WEIGHT = 0.7
_COVER_WEIGHT = 0.5
_COVER_FEATURES = 2


class IntentFeatures:
    """Reads messages for one index."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder

    def rows(self, texts: Sequence[str]) -> Vectors:
        """One row per text; the first TEXT_LIMIT_CHARACTERS of each count."""
        read = [self._lexicon.read(text[:TEXT_LIMIT_CHARACTERS]) for text in texts]
        wording_at = self._embedder.dimensions
        spelling_at = wording_at + WORDING_BUCKETS
        cover_at = spelling_at + SPELLING_BUCKETS
        rows = np.zeros((len(texts), cover_at + _COVER_FEATURES), np.float32)
        joined = [" ".join(words) for words in read]
        rows[:, :wording_at] = self._embedder.embed(joined) * np.float32(_EMBEDDING_WEIGHT)
        for row, words, text in zip(rows, read, joined, strict=True):
            for bucket, weight in wording_features(words).items():
                row[wording_at + bucket] = weight * _WORDING_WEIGHT
            for bucket, weight in spelling_features(text).items():
                row[spelling_at + bucket] = weight * _SPELLING_WEIGHT
            known = self._lexicon.known_share(words)
            row[cover_at] = known * _COVER_WEIGHT
            row[cover_at + 1] = (known == 0) * _COVER_WEIGHT
        return rows
