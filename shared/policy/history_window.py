"""Which earlier turns the model sees."""

from __future__ import annotations

from collections.abc import Iterable

from shared.contracts.stored_turns import HistoryEntry
from shared.policy.token_estimate import estimate_tokens

KEPT_SHARE = 0.75
"""A full window is cut to this share of its bounds."""
_CUT = "\n[…]\n"
_MIN_PART_TOKENS = 20


def fit_history(
    oldest_first: Iterable[HistoryEntry], *, max_turns: int, max_tokens: int
) -> tuple[HistoryEntry, ...]:
    """The newest turns within both bounds, oldest first.

    Whole turns only, so it starts with a user message and every question keeps its answer. A turn with a blank half
    is left out: the model's API refuses blank messages. The window ends before the first turn that does not fit; a
    smaller, older one behind a gap would mislead the model. The newest turn is never lost for its length: alone too
    long, it is there with the middle of its longer half cut out. The message being answered is not part of it.
    """
    kept: list[HistoryEntry] = []
    tokens = 0
    for entry in reversed([entry for entry in oldest_first if is_usable(entry)]):
        tokens += estimate_tokens(entry.user_text) + estimate_tokens(entry.assistant_text)
        if len(kept) >= max_turns or tokens > max_tokens:
            if not kept and max_turns > 0:
                kept.extend(_shortened(entry, max_tokens))
            break
        kept.append(entry)
    return tuple(reversed(kept))


def next_window(
    oldest_first: Iterable[HistoryEntry], *, max_turns: int, max_tokens: int
) -> tuple[HistoryEntry, ...]:
    """The window to go on with: as it is while it fits, else cut down by a quarter at once.

    Dropping one turn at a time would begin the history elsewhere each time, and the provider's prompt cache would
    never read it again.
    """
    usable = tuple(entry for entry in oldest_first if is_usable(entry))
    whole = fit_history(usable, max_turns=max_turns, max_tokens=max_tokens)
    if len(whole) == len(usable):
        return whole
    cut = fit_history(
        usable, max_turns=int(max_turns * KEPT_SHARE), max_tokens=int(max_tokens * KEPT_SHARE)
    )
    # A turn that fits the whole window, but not the cut one, is better whole and alone than shortened.
    return whole[-1:] if len(cut) <= 1 else cut


def is_usable(entry: HistoryEntry) -> bool:
    """True when both halves hold more than white space."""
    return bool(entry.user_text.strip()) and bool(entry.assistant_text.strip())


def _shortened(entry: HistoryEntry, max_tokens: int) -> tuple[HistoryEntry, ...]:
    """The turn within `max_tokens`, none when that would leave hardly a word."""
    if max_tokens < 2 * _MIN_PART_TOKENS:
        return ()
    half = max_tokens // 2
    asked, answered = estimate_tokens(entry.user_text), estimate_tokens(entry.assistant_text)
    # What the shorter half does not need is the longer one's.
    user_tokens = max(half, max_tokens - answered)
    answer_tokens = max(half, max_tokens - asked)
    shorter = HistoryEntry(
        entry.turn_id,
        _without_middle(entry.user_text, min(asked, user_tokens)),
        _without_middle(entry.assistant_text, min(answered, answer_tokens)),
    )
    return (shorter,) if is_usable(shorter) else ()


def _without_middle(text: str, max_tokens: int) -> str:
    """The beginning and the end of `text`, two thirds to one, as much as fits."""
    if estimate_tokens(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(_ends(text, middle)) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    return _ends(text, low)


def _ends(text: str, characters: int) -> str:
    tail = characters // 3
    return text[: characters - tail] + _CUT + text[len(text) - tail :]
