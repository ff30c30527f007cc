"""Does the classifier know what a user wants, and how fast?

A call never waits, so its CPU time is its latency on a machine that does nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from time import thread_time

from ops.evaluation.subject import Subject, percentile
from ops.evaluation.table import Measure, Table
from shared.adapters.embedding import Embedder
from shared.adapters.intent_training import IntentWeights, intent_features, train_intents
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.contracts.knowledge import GENERAL_INTENT, Intent, LabelledText
from shared.policy.fanout import settle_intent
from shared.policy.intent import JudgedGuess, choose_floor

FOLDS = 5
ROUNDS = 20


async def measure_intents(subject: Subject) -> Table | None:
    """Accuracy on `intents/held_out.jsonl`, which is never trained on; None without that file."""
    held_out = subject.labelled("intents/held_out.jsonl", LabelledText)
    if not held_out:
        return None
    validated = cross_validate(subject.corpus.examples, subject.embedder)
    floor = choose_floor(validated)
    intents = guess_intents(subject.index.intents, held_out, subject.embedder)
    right = sum(
        intent.label == example.label for intent, example in zip(intents, held_out, strict=True)
    )
    spans_us = await _classify_spans_us(subject, [example.text for example in held_out])
    return Table(
        title=f"Intent: {len(subject.corpus.examples)} examples, {len(held_out)} held out",
        measures=(
            Measure(name="held-out accuracy", value=right / len(held_out), goal=0.92),
            Measure(name="cross-validated accuracy", value=_accuracy(validated)),
            Measure(name="confidence floor", value=floor),
            Measure(
                name="classify p50, CPU time of a call",
                value=percentile(spans_us, 0.5),
                digits=0,
                unit="µs",
            ),
            Measure(
                name="classify p99, CPU time of a call",
                value=percentile(spans_us, 0.99),
                digits=0,
                unit="µs",
                goal=1_000,
                at_most=True,
            ),
        ),
        notes=tuple(_confusion(subject.index.intents.labels, held_out, intents, floor)),
    )


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


def _accuracy(guesses: Sequence[JudgedGuess]) -> float:
    return sum(guess.is_right for guess in guesses) / len(guesses)


def _confusion(
    labels: Sequence[str], examples: Sequence[LabelledText], intents: Sequence[Intent], floor: float
) -> Iterator[str]:
    counts = Counter(
        (example.label, settle_intent(intent, floor).label)
        for example, intent in zip(examples, intents, strict=True)
    )
    yield "rows: true intent, columns in the same order, then general"
    for label in labels:
        row = " ".join(f"{counts[label, column]:4d}" for column in (*labels, GENERAL_INTENT))
        yield f"{label:17s}{row}"


async def _classify_spans_us(subject: Subject, texts: Sequence[str]) -> list[float]:
    classifier = LinearIntentClassifier(lambda: subject.index, subject.embedder)
    spans: list[float] = []
    for text in list(texts) * ROUNDS:
        started = thread_time()
        await classifier.classify(text)
        spans.append((thread_time() - started) * 1e6)
    return spans
