"""What the assistant knows: documents, the passages cut from them, and what a user wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

DOCUMENTS_PREFIX: Final = "documents/"
"""Where the corpus lies in the knowledge bucket."""
INDEX_PREFIX: Final = "index/"
"""Where the indexes lie in it, one for each embedding and format, so that old and new workers can live side by side."""
GENERAL_INTENT: Final = "general"
"""The label of a message that no intent claims with enough confidence."""


class KindRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the documents of one kind are.

    Each document of a `catalogue` kind describes one thing on offer: it is looked up by name, answered with its
    facts, and likened to others by its themes and genres. `required` are facts that none of the kind may lack.
    """

    catalogue: bool = False
    required: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the corpus. `facts` keeps the other front matter values; `id` is unique in the corpus.

    `kind` is the owner's own word; what it means to the code stands in its KindRule.
    """

    id: str
    title: str
    kind: str
    facts: Mapping[str, tuple[str, ...]]
    body: str


class PassageEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A passage as the index holds it. A question that says one of `names` means this passage's document.

    `facts` are the document's, kept with its first passage only; a document with facts is part of the catalogue.
    """

    id: str
    source_id: str
    title: str
    text: str
    kind: str
    names: tuple[str, ...] = ()
    facts: Mapping[str, tuple[str, ...]] = {}


class Passage(msgspec.Struct, frozen=True):
    """A passage found for a question. `source_id` is its document's id; a higher `score` is nearer."""

    id: str
    title: str
    text: str
    score: float
    source_id: str


class SimilarTitle(msgspec.Struct, frozen=True, kw_only=True):
    """A title to suggest: its first passage, what it `shares` with the wish, and the titles it is `like`, if any."""

    passage: Passage
    shares: tuple[str, ...]
    like: tuple[str, ...] = ()


class Intent(msgspec.Struct, frozen=True):
    """What the user wants, one of the labels that the examples have or `general`; `confidence` 0..1."""

    label: str
    confidence: float


class LabelledText(msgspec.Struct, frozen=True):
    """An example message with the intent that a person gave it."""

    text: str
    label: str


class AssistantProfile(msgspec.Struct, frozen=True):
    """How the assistant introduces itself on the page; neutral words stand where nobody gave others."""

    name: str = "Assistant"
    tagline: str = ""
    greeting: str = "Hello! How can I help you?"
    suggestions: tuple[str, ...] = ()
