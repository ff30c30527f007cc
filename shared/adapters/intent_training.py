"""Ridge regression over a message's features: solved when an index is built, applied by matrix product.

The closed form also tells what each example would have got from a model without it, by which confidences are scaled:
no second training, and nothing tuned on what the model has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.adapters.embedding import Vectors
from shared.adapters.intent_features import IntentFeatures
from shared.contracts.knowledge import Intent, LabelledText
from shared.policy.intent import JudgedGuess, choose_floor

_RIDGE = 0.7
_STEEPNESS = np.linspace(1, 12, 45)


@dataclass(frozen=True)
class IntentWeights:
    """A trained model: `weights` has a row per feature and a column per label, `bias` one value per label.

    A guess whose confidence is below `floor` should not be acted on.
    """

    labels: tuple[str, ...]
    weights: Vectors
    bias: Vectors
    floor: float = 0.0

    def guess(self, rows: Vectors) -> list[Intent]:
        """The likeliest label of each row with its probability, whatever the floor."""
        shares = _softmax(rows @ self.weights + self.bias)
        return [Intent(self.labels[int(row.argmax())], float(row.max())) for row in shares]


@dataclass(frozen=True)
class Training:
    """A model, and what it would have guessed for each of its examples without having seen it."""

    model: IntentWeights
    unseen: tuple[Intent, ...]


def train_intents(
    examples: Sequence[LabelledText], validation: Sequence[LabelledText], features: IntentFeatures
) -> Training:
    """Fit the model to the examples, at least one per label, and its floor to the validation part.

    The same texts give the same weights. Takes about 5 s of CPU for 2,200 examples; without a
    validation part the floor is 0.
    """
    labels = tuple(sorted({example.label for example in examples}))
    truth = np.array([labels.index(example.label) for example in examples])
    rows = features.rows([example.text for example in examples])
    targets = np.full((len(examples), len(labels)), -1.0)
    targets[np.arange(len(examples)), truth] = 1.0
    # The bias is one more feature that is 1 everywhere.
    kernel = (rows @ rows.T + 1).astype(np.float64)
    inverse = np.linalg.inv(kernel + _RIDGE * np.eye(len(examples)))
    duals = inverse @ targets
    unseen = targets - duals / np.diag(inverse)[:, np.newaxis]
    steepness = min(_STEEPNESS, key=lambda steep: _surprise(unseen * steep, truth))
    model = IntentWeights(
        labels,
        np.ascontiguousarray(rows.T @ (duals * steepness), np.float32),
        np.ascontiguousarray(duals.sum(axis=0) * steepness, np.float32),
    )
    floor = choose_floor(judge(model, validation, features))
    return Training(
        IntentWeights(labels, model.weights, model.bias, floor),
        tuple(
            Intent(labels[int(row.argmax())], float(row.max()))
            for row in _softmax(unseen * steepness)
        ),
    )


def judge(
    model: IntentWeights, texts: Sequence[LabelledText], features: IntentFeatures
) -> list[JudgedGuess]:
    """The model's guesses on labelled texts."""
    if not texts:
        return []
    guesses = model.guess(features.rows([text.text for text in texts]))
    return [
        JudgedGuess(guess.confidence, guess.label == text.label)
        for guess, text in zip(guesses, texts, strict=True)
    ]


def _surprise(scores: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """Mean negative log likelihood of the true labels."""
    shares = _softmax(scores)[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(shares, 1e-12)).mean())


def _softmax(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.floating] = powers / powers.sum(axis=1, keepdims=True)
    return shares
