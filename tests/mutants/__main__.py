"""`python -m tests.mutants [words]`: plants known faults and demands that the named tests notice them.

With words only those mutants whose row or file contains one of them.
"""

from __future__ import annotations

import sys

from tests.mutants.mutant import Mutant
from tests.mutants.patches import ALL
from tests.mutants.runner import run


def _chosen(words: list[str]) -> list[Mutant]:
    if not words:
        return list(ALL)
    return [
        mutant
        for mutant in ALL
        if any(word in f"{mutant.guards} {mutant.what} {mutant.file}" for word in words)
    ]


if __name__ == "__main__":
    sys.exit(0 if run(_chosen(sys.argv[1:])) else 1)
