"""Which sources of knowledge an intent asks for."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from shared.contracts.knowledge import GENERAL_INTENT, Intent

Source = Literal["retrieval"]

_RETRIEVAL: tuple[Source, ...] = ("retrieval",)
_NONE: tuple[Source, ...] = ()
_SOURCES: MappingProxyType[str, tuple[Source, ...]] = MappingProxyType(
    {"chit_chat": _NONE, "out_of_scope": _NONE}
)


def settle_intent(intent: Intent, floor: float) -> Intent:
    """The intent to act on: `general` when the confidence is below `floor`."""
    return intent if intent.confidence >= floor else Intent(GENERAL_INTENT, intent.confidence)


def sources_for(label: str) -> tuple[Source, ...]:
    """The sources to ask for an intent, retrieval unless the table says otherwise."""
    return _SOURCES.get(label, _RETRIEVAL)
