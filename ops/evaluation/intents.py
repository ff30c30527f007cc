"""Does the classifier know what a user wants, how sure is it, and how fast?

A call never waits, so its CPU time is its latency on a machine that does nothing else. `python -m
ops.evaluation.intents` lists the examples that a model without them gets wrong: what to look at when improving the
examples or the lexicon, as the held-out part must not be looked at for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import thread_time

from ops.evaluation.subject import Subject, percentile, read_subject
from ops.evaluation.table import Measure, Table
from shared.adapters.intent_features import IntentFeatures
from shared.adapters.intent_training import train_intents
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.contracts.knowledge import GENERAL_INTENT, Intent, LabelledText
from shared.policy.fanout import settle_intent
from shared.policy.intent import JudgedGuess, calibration_error

ROUNDS = 20


async def measure_intents(subject: Subject) -> Table | None:
    """Accuracy on `intents/held_out.jsonl`, which is never trained on; None without that file."""
    held_out = subject.labelled("intents/held_out.jsonl", LabelledText)
    if not held_out:
        return None
    corpus, model = subject.corpus, subject.index.intents
    features = IntentFeatures(subject.index.lexicon, subject.embedder)
    guesses = model.guess(features.rows([text.text for text in held_out]))
    unseen = train_intents(corpus.examples, corpus.validation, features).unseen
    validated = model.guess(features.rows([text.text for text in corpus.validation]))
    judged = _judged(held_out, guesses)
    kept = [guess for guess in judged if guess.confidence >= model.floor]
    spans_us = await _classify_spans_us(subject, [text.text for text in held_out])
    title = (
        f"Intent: {len(corpus.examples)} examples, {len(corpus.validation)} to validate, "
        f"{len(held_out)} held out"
    )
    return Table(
        title=title,
        measures=(
            Measure(name="held-out accuracy", value=_accuracy(judged), goal=0.92),
            Measure(
                name="validation accuracy", value=_accuracy(_judged(corpus.validation, validated))
            ),
            Measure(
                name="leave-one-out accuracy", value=_accuracy(_judged(corpus.examples, unseen))
            ),
            Measure(name="confidence floor, chosen on validation", value=model.floor),
            Measure(name="held out, above the floor", value=len(kept) / len(judged)),
            Measure(name="accuracy above the floor", value=_accuracy(kept)),
            Measure(name="calibration error (10 bins)", value=calibration_error(judged)),
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
        notes=tuple(_confusion(model.labels, held_out, guesses, model.floor)),
    )


def _judged(texts: Sequence[LabelledText], guesses: Sequence[Intent]) -> list[JudgedGuess]:
    return [
        JudgedGuess(guess.confidence, guess.label == text.label)
        for guess, text in zip(guesses, texts, strict=True)
    ]


def _accuracy(guesses: Sequence[JudgedGuess]) -> float:
    return sum(guess.is_right for guess in guesses) / max(len(guesses), 1)


def _confusion(
    labels: Sequence[str], texts: Sequence[LabelledText], guesses: Sequence[Intent], floor: float
) -> Iterator[str]:
    counts = Counter(
        (text.label, settle_intent(guess, floor).label)
        for text, guess in zip(texts, guesses, strict=True)
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


def _print_misses(subject: Subject) -> None:
    lexicon = subject.index.lexicon
    features = IntentFeatures(lexicon, subject.embedder)
    examples = subject.corpus.examples
    for text, guess in zip(examples, train_intents(examples, (), features).unseen, strict=True):
        if guess.label != text.label:
            read = " | ".join(lexicon.read(text.text))
            print(f"{text.label} not {guess.label} {guess.confidence:.2f}: {text.text}  [{read}]")


if __name__ == "__main__":
    _print_misses(read_subject(Path("knowledge")))
