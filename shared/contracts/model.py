"""One call to a language model and what comes back."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.contracts.server_frames import Usage


class PromptMessage(msgspec.Struct, frozen=True):
    """One message of the conversation; `content` is text, or a list of text blocks."""

    role: str
    content: str | list[dict[str, Any]]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is asked: the stable prefix (`system`) first, then the conversation.

    The first `stable_messages` will stand in the session's next prompt, too, byte for byte: worth the provider's cache.
    """

    model: str
    system: str
    messages: tuple[PromptMessage, ...]
    max_tokens: int
    stable_messages: int = 0


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the reply."""

    text: str


class ModelAlive(msgspec.Struct, frozen=True):
    """The provider said something without text (start, ping): a sign of life."""


class ModelStopped(msgspec.Struct, frozen=True):
    """The provider ended the reply on purpose, with its own stop reason."""

    stop_reason: str
    usage: Usage


ModelEvent = TextDelta | ModelAlive | ModelStopped
