"""The prompt: what never changes first, so that the provider's prompt cache hits; then history; the question last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from shared.contracts.knowledge import Passage
from shared.contracts.model import Prompt, PromptMessage
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry
from shared.errors import MalformedMessage
from shared.policy.limits import AnswerPlan

_ATTRIBUTE = {'"': "&quot;"}


def build_prompt(
    *,
    system: str,
    history: Sequence[HistoryEntry],
    passages: Sequence[Passage],
    question: str,
    plan: AnswerPlan,
) -> Prompt:
    """A request that the Messages API accepts: roles alternate, begin and end with the user, no blank text.

    The user's words are the last block, unchanged. Neither a clock nor an id is in it.
    Raises MalformedMessage for a blank question, which the gateway refuses at the door.
    """
    if not question.strip():
        raise MalformedMessage("the user's message is blank", b"")
    messages: list[PromptMessage] = []
    for turn in history:
        messages.append(PromptMessage("user", turn.user_text))
        messages.append(PromptMessage("assistant", turn.assistant_text))
    blocks = [_text_block(passages_text(passages))] if passages else []
    messages.append(PromptMessage("user", [*blocks, _text_block(question)]))
    return Prompt(
        model=plan.model, system=system, messages=tuple(messages), max_tokens=plan.max_tokens
    )


def passages_text(passages: Sequence[Passage]) -> str:
    """The passages as elements; markup in their text is escaped, so none can end its element early."""
    elements = [
        f'<passage id="{escape(passage.id, _ATTRIBUTE)}" title="{escape(passage.title, _ATTRIBUTE)}">'
        f"{escape(passage.text)}</passage>"
        for passage in passages
    ]
    return "<passages>\n" + "\n".join(elements) + "\n</passages>"


def source_links(passages: Sequence[Passage]) -> tuple[SourceLink, ...]:
    """The documents behind the passages, each once, best first."""
    titles: dict[str, str] = {}
    for passage in passages:
        titles.setdefault(passage.source_id, passage.title)
    return tuple(SourceLink(title=title, id=source_id) for source_id, title in titles.items())


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
