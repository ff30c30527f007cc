"""Which earlier turns the model sees."""

from __future__ import annotations

from collections.abc import Iterable

from shared.contracts.stored_turns import HistoryEntry
from shared.policy.token_estimate import estimate_tokens


def fit_history(
    oldest_first: Iterable[HistoryEntry], *, max_turns: int, max_tokens: int
) -> tuple[HistoryEntry, ...]:
    """The newest turns within both bounds, oldest first.

    Whole turns only, so it starts with a user message and every question keeps its answer. A turn with a blank half
    is left out: the model's API refuses blank messages. The window ends before the first turn that does not fit; a
    smaller, older one behind a gap would mislead the model. The newest user message is not part of it and always sent.
    """
    kept: list[HistoryEntry] = []
    tokens = 0
    for entry in reversed([entry for entry in oldest_first if is_usable(entry)]):
        tokens += estimate_tokens(entry.user_text) + estimate_tokens(entry.assistant_text)
        if len(kept) >= max_turns or tokens > max_tokens:
            break
        kept.append(entry)
    return tuple(reversed(kept))


def is_usable(entry: HistoryEntry) -> bool:
    """True when both halves hold more than white space."""
    return bool(entry.user_text.strip()) and bool(entry.assistant_text.strip())
