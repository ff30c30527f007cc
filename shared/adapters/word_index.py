"""Which passages share words with a question, and how telling those words are (BM25)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from shared.adapters.embedding import Vectors
from shared.policy.words import stems

_SATURATION = 0.4
_LENGTH_SHARE = 0.5
_QUESTION_WORDS = 60


class WordIndex:
    """Postings of the texts; about 10 µs for each word of a question."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(stems(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], np.float32)
        mean = max(float(lengths.mean()), 1.0) if len(texts) else 1.0
        rows: dict[str, list[int]] = {}
        for row, count in enumerate(counts):
            for stem in count:
                rows.setdefault(stem, []).append(row)
        self._texts = len(texts)
        self._idf = {stem: math.log(1 + len(texts) / len(found)) for stem, found in rows.items()}
        self._postings = {
            stem: (
                np.array(found, np.intp),
                _saturated(
                    np.array([counts[row][stem] for row in found], np.float32),
                    lengths[found] / mean,
                ),
            )
            for stem, found in rows.items()
        }

    def shares(self, text: str) -> Vectors:
        """For each text, how much of the question's weight it holds: 0..1, rare words weighing more.

        Words that no text has are left out of the weight. Only the first 60 words count.
        """
        scores = np.zeros(self._texts, np.float32)
        total = 0.0
        for stem in dict.fromkeys(stems(text)[:_QUESTION_WORDS]):
            posting = self._postings.get(stem)
            if posting is not None:
                found, weights = posting
                scores[found] += np.float32(self._idf[stem]) * weights
                total += self._idf[stem]
        if total:
            scores /= np.float32(total)
        return scores


def _saturated(counts: Vectors, relative_lengths: Vectors) -> Vectors:
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative_lengths)
    weights: Vectors = (counts / (counts + norm)).astype(np.float32)
    return weights
