"""A prompt for people and for programs: every block with what it costs, and where the provider's cache may end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.contracts.model import Prompt, PromptMessage
from shared.policy.token_estimate import estimate_prompt_tokens, estimate_tokens
from shared.turn.preparation import Prepared

CACHE_MARK = "──── cache mark: all above is the same in the next prompt ────"
_NAMES = {"user": "the user", "assistant": "the assistant"}


def prompt_text(prepared: Prepared) -> str:
    """The prompt as a page of text."""
    prompt = prepared.prompt
    lines = [
        f"model {prompt.model} · intent {prepared.intent} · at most {estimate_prompt_tokens(prompt)} tokens by "
        f"estimate · answer of at most {prompt.max_tokens} tokens",
        f"sources: {', '.join(source.title for source in prepared.sources) or 'none'}",
        "",
        _heading("rules", prompt.system),
        prompt.system,
        CACHE_MARK,
    ]
    for place, message in enumerate(prompt.messages, 1):
        for name, text in _blocks(message, is_last=place == len(prompt.messages)):
            lines += ["", _heading(name, text), text]
        if place == prompt.stable_messages:
            lines.append(CACHE_MARK)
    return "\n".join(lines)


def prompt_fields(prepared: Prepared) -> dict[str, Any]:
    """The same for programs."""
    prompt: Prompt = prepared.prompt
    return {
        "model": prompt.model,
        "intent": prepared.intent,
        "sources": [{"title": source.title, "id": source.id} for source in prepared.sources],
        "estimated_tokens": estimate_prompt_tokens(prompt),
        "max_tokens": prompt.max_tokens,
        "system": prompt.system,
        "messages": [{"role": each.role, "content": each.content} for each in prompt.messages],
        "stable_messages": prompt.stable_messages,
    }


def _blocks(message: PromptMessage, *, is_last: bool) -> Iterator[tuple[str, str]]:
    speaker = _NAMES.get(message.role, message.role)
    if isinstance(message.content, str):
        yield speaker, message.content
        return
    *data, own = (str(block["text"]) for block in message.content)
    for text in data:
        yield "what was found", text
    yield f"{speaker}, now" if is_last else speaker, own


def _heading(name: str, text: str) -> str:
    return f"── {name} (at most {estimate_tokens(text)} tokens)"
