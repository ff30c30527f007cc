"""Personal data leaves a message before anything else of the system sees it."""

from __future__ import annotations

from typing import Any

from shared.policy.pii import mask_pii, mask_values
from shared.telemetry import Metrics


class Masking:
    """Masks messages and counts what was masked by kind; switched off it passes everything as it is."""

    def __init__(self, *, is_on: bool, metrics: Metrics) -> None:
        self._is_on = is_on
        self._metrics = metrics

    def message(self, text: str, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The text, no longer than before, and the metadata as they may be kept, sent and shown to the model."""
        if not self._is_on:
            return text, metadata
        masked = mask_pii(text)
        for kind in masked.kinds:
            self._metrics.count("MaskedPii", kind=kind)
        return masked.text, mask_values(metadata)
