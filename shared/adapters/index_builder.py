"""From a corpus to an index: embed the passages, train the intents."""

from __future__ import annotations

from collections.abc import Mapping

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.intent_features import IntentFeatures
from shared.adapters.intent_training import train_intents
from shared.policy.corpus import Corpus
from shared.policy.lexicon import lexicon_of


def build_index(
    corpus: Corpus, fingerprints: Mapping[str, str], embedder: Embedder
) -> KnowledgeIndex:
    """Build the index of a corpus whose files are in the state that `fingerprints` tells.

    Takes about four seconds for 400 documents and 1,600 examples, all of it CPU: never on an event loop that serves
    turns.
    """
    lexicon = lexicon_of(corpus.lexicon, corpus.passages)
    training = train_intents(corpus.examples, corpus.validation, IntentFeatures(lexicon, embedder))
    texts = [f"{entry.title}. {entry.text}" for entry in corpus.passages]
    return KnowledgeIndex(
        embedding=embedder.name,
        fingerprints=fingerprints,
        passages=corpus.passages,
        vectors=embedder.embed(texts),
        intents=training.model,
        prompt=corpus.prompt,
        blocked=corpus.blocked,
        assistant=corpus.assistant,
        forms=corpus.lexicon,
    )
