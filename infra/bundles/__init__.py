"""How a function becomes a Lambda bundle: dependencies, pruning, sources, archive."""
