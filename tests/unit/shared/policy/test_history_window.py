"""Which earlier turns the model sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.stored_turns import HistoryEntry
from shared.policy.history_window import fit_history
from shared.policy.token_estimate import estimate_tokens

texts = st.text(max_size=40)
histories = st.lists(st.builds(HistoryEntry, st.just("t"), texts, texts), max_size=25)


def tokens_of(entry: HistoryEntry) -> int:
    return estimate_tokens(entry.user_text) + estimate_tokens(entry.assistant_text)


@given(histories, st.integers(0, 20), st.integers(0, 400))
@pytest.mark.case("B-33")
def test_the_window_is_the_newest_whole_usable_turns_within_both_bounds(
    history: list[HistoryEntry], max_turns: int, max_tokens: int
) -> None:
    window = fit_history(history, max_turns=max_turns, max_tokens=max_tokens)

    usable = [e for e in history if e.user_text.strip() and e.assistant_text.strip()]
    assert list(window) == usable[len(usable) - len(window) :]
    assert len(window) <= max_turns
    tokens = sum(map(tokens_of, window))
    assert tokens <= max_tokens
    if len(window) < min(max_turns, len(usable)):
        assert tokens + tokens_of(usable[-len(window) - 1]) > max_tokens


@pytest.mark.parametrize("length", range(1, 21))
@pytest.mark.case("B-33")
def test_every_length_keeps_that_many_turns(length: int) -> None:
    history = [HistoryEntry(f"t{n}", f"question {n}", f"answer {n}") for n in range(30)]

    window = fit_history(history, max_turns=length, max_tokens=6_000)

    assert [entry.turn_id for entry in window] == [f"t{n}" for n in range(30 - length, 30)]


@pytest.mark.case("B-33")
def test_a_window_smaller_than_one_turn_is_empty() -> None:
    assert fit_history([HistoryEntry("t", "q" * 100, "a")], max_turns=20, max_tokens=10) == ()


@given(st.text())
def test_the_estimate_is_at_least_a_token_per_three_bytes(text: str) -> None:
    assert 3 * (estimate_tokens(text) - 4) >= len(text.encode())
    assert estimate_tokens(text) >= 4
