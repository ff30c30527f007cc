"""Softmax regression over embedding and spelling: trained when an index is built, applied by matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.adapters.embedding import Embedder, Vectors
from shared.contracts.knowledge import LabelledText
from shared.policy.spelling import SPELLING_BUCKETS, spelling_features

TEXT_LIMIT_CHARACTERS = 1_000
# Chosen by five-fold cross-validation on the training examples (ops/evaluation/intents.py).
_L2 = 3e-4
_STEPS = 300
_LEARNING_RATE = 0.05


@dataclass(frozen=True)
class IntentWeights:
    """A trained model: `weights` has a row per feature and a column per label, `bias` one value per label."""

    labels: tuple[str, ...]
    weights: Vectors
    bias: Vectors

    def probabilities(self, features: Vectors) -> NDArray[np.float32]:
        """One row per text, one column per label, each row adding up to 1."""
        return _softmax(features @ self.weights + self.bias)


def intent_features(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """One row per text: its embedding, then its spelling; the first TEXT_LIMIT_CHARACTERS count."""
    cut = [text[:TEXT_LIMIT_CHARACTERS] for text in texts]
    features = np.zeros((len(cut), embedder.dimensions + SPELLING_BUCKETS), np.float32)
    features[:, : embedder.dimensions] = embedder.embed(cut)
    for row, text in zip(features, cut, strict=True):
        for bucket, weight in spelling_features(text).items():
            row[embedder.dimensions + bucket] = weight
    return features


def train_intents(examples: Sequence[LabelledText], embedder: Embedder) -> IntentWeights:
    """Fit the model to the examples, at least one per label. The same examples give the same weights."""
    labels = tuple(sorted({example.label for example in examples}))
    features = intent_features([example.text for example in examples], embedder)
    targets = np.zeros((len(examples), len(labels)), np.float32)
    for row, example in zip(targets, examples, strict=True):
        row[labels.index(example.label)] = 1
    weights, bias = _descend(features, targets)
    return IntentWeights(labels, weights, bias)


def _descend(features: Vectors, targets: Vectors) -> tuple[Vectors, Vectors]:
    """Full-batch Adam from zero: the loss is convex, so this ends near its only minimum."""
    augmented = np.hstack([features, np.ones((len(features), 1), np.float32)])
    decay = np.full((augmented.shape[1], 1), _L2, np.float32)
    decay[-1] = 0
    parameters = np.zeros((augmented.shape[1], targets.shape[1]), np.float32)
    mean, spread = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, _STEPS + 1):
        error = _softmax(augmented @ parameters) - targets
        gradient = augmented.T @ error / len(features) + decay * parameters
        mean += 0.1 * (gradient - mean)
        spread += 0.001 * (gradient * gradient - spread)
        scale = np.sqrt(spread / (1 - 0.999**step)) + 1e-8
        parameters -= _LEARNING_RATE * (mean / (1 - 0.9**step)) / scale
    return np.ascontiguousarray(parameters[:-1]), np.ascontiguousarray(parameters[-1])


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return shares
