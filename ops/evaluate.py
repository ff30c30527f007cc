"""Measure intent and retrieval on labelled texts: `python -m ops.evaluate [knowledge folder]`.

The held-out messages and the queries are never trained on. The confidence floor is chosen by cross-validation on
the training examples alone.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import msgspec

from shared.adapters.embedding import Embedder
from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.index_builder import build_index
from shared.adapters.intent_training import IntentWeights, intent_features, train_intents
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.adapters.vector_retriever import VectorRetriever
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.contracts.knowledge import GENERAL_INTENT, Intent, LabelledText
from shared.policy.corpus import read_corpus
from shared.policy.fanout import settle_intent
from shared.policy.intent import JudgedGuess, choose_floor

FOLDS = 5
PASSAGES = 5


class LabelledQuery(msgspec.Struct, frozen=True):
    """A question and the documents any of which answers it."""

    text: str
    sources: tuple[str, ...]


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, by its path inside it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def cross_validate(examples: Sequence[LabelledText], embedder: Embedder) -> list[JudgedGuess]:
    """Each example guessed by a model that has not seen it."""
    guesses: list[JudgedGuess] = []
    for fold in range(FOLDS):
        unseen = examples[fold::FOLDS]
        seen = [example for at, example in enumerate(examples) if at % FOLDS != fold]
        intents = guess_intents(train_intents(seen, embedder), unseen, embedder)
        guesses += [
            JudgedGuess(intent.confidence, intent.label == example.label)
            for intent, example in zip(intents, unseen, strict=True)
        ]
    return guesses


def guess_intents(
    model: IntentWeights, examples: Sequence[LabelledText], embedder: Embedder
) -> list[Intent]:
    """The likeliest intent of each example."""
    features = intent_features([example.text for example in examples], embedder)
    return [
        Intent(model.labels[int(shares.argmax())], float(shares.max()))
        for shares in model.probabilities(features)
    ]


def print_intents(
    index: KnowledgeIndex, examples: Sequence[LabelledText], floor: float, embedder: Embedder
) -> None:
    """Accuracy and confusion on held-out messages."""
    intents = guess_intents(index.intents, examples, embedder)
    pairs = list(zip(examples, intents, strict=True))
    right = sum(intent.label == example.label for example, intent in pairs)
    print(f"held-out accuracy {right / len(pairs):.3f} ({right} of {len(pairs)}), no floor")
    floored = Counter(
        (example.label, settle_intent(intent, floor).label) for example, intent in pairs
    )
    kept = sum(count for (_, guess), count in floored.items() if guess != GENERAL_INTENT)
    kept_right = sum(count for (label, guess), count in floored.items() if label == guess)
    print(f"with floor {floor:.2f}: {kept} acted on, {kept_right / max(kept, 1):.3f} of them right")
    columns = (*index.intents.labels, GENERAL_INTENT)
    print("rows: true intent, columns in the same order, then general")
    for label in index.intents.labels:
        counts = " ".join(f"{floored[label, column]:4d}" for column in columns)
        print(f"  {label:17s}{counts}")


async def print_retrieval(
    index: KnowledgeIndex, queries: Sequence[LabelledQuery], embedder: Embedder
) -> None:
    """Recall at 5 and at 1 on labelled questions, with those that were missed."""
    retriever = VectorRetriever(lambda: index, embedder)
    found = first = 0
    for query in queries:
        sources = [passage.source_id for passage in await retriever.search(query.text, PASSAGES)]
        first += sources[0] in query.sources
        if any(source in query.sources for source in sources):
            found += 1
        else:
            print(f"  missed: {query.text}")
    print(f"recall@{PASSAGES} {found / len(queries):.3f}, @1 {first / len(queries):.3f}")


async def print_speed(
    index: KnowledgeIndex, texts: Sequence[str], embedder: Embedder, rounds: int = 20
) -> None:
    """Median and 99th percentile of one call on this machine."""
    classifier = LinearIntentClassifier(lambda: index, embedder)
    retriever = VectorRetriever(lambda: index, embedder)
    spans: dict[str, list[float]] = {"classify": [], "search": []}
    for text in list(texts) * rounds:
        started = perf_counter()
        await classifier.classify(text)
        middle = perf_counter()
        await retriever.search(text, PASSAGES)
        spans["classify"].append(middle - started)
        spans["search"].append(perf_counter() - middle)
    for name, values in spans.items():
        values.sort()
        p50, p99 = values[len(values) // 2], values[len(values) * 99 // 100]
        print(f"{name}: p50 {p50 * 1e6:.0f} µs, p99 {p99 * 1e6:.0f} µs")


def main() -> None:
    """Print all measurements."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("knowledge"))
    folder: Path = parser.parse_args().folder
    held_out = [
        msgspec.json.decode(line, type=LabelledText)
        for line in (folder / "intents/held_out.jsonl").read_bytes().splitlines()
    ]
    queries = [
        msgspec.json.decode(line, type=LabelledQuery)
        for line in (folder / "queries.jsonl").read_bytes().splitlines()
    ]
    embedder = WordLlamaEmbedder()
    started = perf_counter()
    embedder.load()
    loaded = perf_counter()
    corpus = read_corpus(read_folder(folder))
    index = build_index(corpus, {}, embedder)
    print(
        f"embedder loaded in {loaded - started:.2f} s, {len(corpus.documents)} documents "
        f"({len(corpus.passages)} passages, {len(corpus.examples)} examples) "
        f"indexed in {perf_counter() - loaded:.2f} s"
    )
    guesses = cross_validate(corpus.examples, embedder)
    right = sum(guess.is_right for guess in guesses)
    floor = choose_floor(guesses)
    print(f"cross-validated accuracy {right / len(guesses):.3f}, floor chosen there {floor:.2f}")
    print_intents(index, held_out, floor, embedder)
    asyncio.run(print_retrieval(index, queries, embedder))
    asyncio.run(print_speed(index, [example.text for example in held_out], embedder))


if __name__ == "__main__":
    main()
