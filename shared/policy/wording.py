"""How a message is worded, as numbers: hashed words, neighbours and pairs of meanings."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise
from math import sqrt

WORDING_BUCKETS = 16_384
_PAIRED_WORDS = 12


def wording_features(words: Sequence[str]) -> dict[int, float]:
    """Weights by bucket (0..WORDING_BUCKETS-1); empty without words. `words` are what a Lexicon reads.

    The same words give the same features in every process and version of Python: indexes are built on them.
    """
    if not words:
        return {}
    counts = Counter(words)
    counts.update(f"{one}|{other}" for one, other in pairwise(("^", *words, "$")))
    paired = sorted(dict.fromkeys(words[:_PAIRED_WORDS]))
    counts.update(f"{one}&{other}" for one, other in combinations(paired, 2))
    size = sqrt(counts.total())
    weights: dict[int, float] = {}
    for term, count in counts.items():
        bucket = zlib.crc32(term.encode("utf-8", "surrogatepass")) % WORDING_BUCKETS
        weights[bucket] = weights.get(bucket, 0.0) + sqrt(count) / size
    return weights
