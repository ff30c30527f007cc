"""How a text is spelled, as numbers: hashed runs of letters, which a typo or another language changes only in part."""

from __future__ import annotations

import zlib
from collections import Counter
from math import sqrt

SPELLING_BUCKETS = 4_096
_RUN_LENGTHS = (3, 4)


def spelling_features(text: str) -> dict[int, float]:
    """Weights by bucket (0..SPELLING_BUCKETS-1) with a Euclidean length of 1; empty for a blank text.

    The same text gives the same features in every process and version of Python: indexes are built on them.
    """
    padded = f" {' '.join(text.casefold().split())} "
    counts = Counter(
        zlib.crc32(padded[at : at + length].encode("utf-8", "surrogatepass")) % SPELLING_BUCKETS
        for length in _RUN_LENGTHS
        for at in range(len(padded) - length + 1)
    )
    # The squared weights are the counts themselves, so the length is the root of their sum.
    size = sqrt(counts.total())
    return {bucket: sqrt(count) / size for bucket, count in counts.items()}
