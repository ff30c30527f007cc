"""What the index needs of an embedding: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors; equal `name` means vectors that may be compared."""

    @property
    def name(self) -> str:
        """Model, size and everything else that changes the vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text, each of length 1; a text without any known token gives a row of zeros."""
        ...
