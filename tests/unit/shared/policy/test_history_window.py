"""Which earlier turns the model sees."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.contracts.stored_turns import HistoryEntry
from shared.policy.history_window import fit_history, next_window
from shared.policy.token_estimate import estimate_tokens

texts = st.text(max_size=40)
histories = st.lists(st.builds(HistoryEntry, st.just("t"), texts, texts), max_size=25)


def tokens_of(entry: HistoryEntry) -> int:
    return estimate_tokens(entry.user_text) + estimate_tokens(entry.assistant_text)


SHORT, LONG = HistoryEntry("t", "q", "a"), HistoryEntry("t", "q" * 90, "a")


@given(histories, st.integers(0, 20), st.integers(0, 400))
@example([SHORT, LONG, SHORT], 20, 2 * tokens_of(SHORT))
@pytest.mark.case("B-33")
def test_the_window_is_the_newest_whole_usable_turns_within_both_bounds(
    history: list[HistoryEntry], max_turns: int, max_tokens: int
) -> None:
    window = fit_history(history, max_turns=max_turns, max_tokens=max_tokens)

    usable = [e for e in history if e.user_text.strip() and e.assistant_text.strip()]
    if usable and tokens_of(usable[-1]) > max_tokens:
        assert [entry.turn_id for entry in window] in ([], [usable[-1].turn_id])
        assert sum(map(tokens_of, window)) <= max_tokens
        return
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


@pytest.mark.parametrize(
    ("asked", "answered"),
    [("word " * 20_000, "Yes."), ("Why?", "漫画" * 9_000), ("🦊 " * 5_000, "x " * 9_999)],
)
def test_the_newest_turn_is_not_lost_for_its_length(asked: str, answered: str) -> None:
    history = [HistoryEntry("old", "q", "a"), HistoryEntry("new", f"[{asked}]", f"[{answered}]")]

    (entry,) = fit_history(history, max_turns=20, max_tokens=6_000)

    assert 5_000 < tokens_of(entry) <= 6_000
    for half in (entry.user_text, entry.assistant_text):
        assert (half[0], half[-1]) == ("[", "]")
        assert "[…]" in half or half in (f"[{asked}]", f"[{answered}]")
    assert fit_history([entry], max_turns=20, max_tokens=6_000) == (entry,)


def test_a_full_window_drops_a_quarter_at_once_so_that_it_begins_alike_for_some_turns() -> None:
    window: tuple[HistoryEntry, ...] = ()
    begins = []
    for n in range(600):
        window = next_window(
            (*window, HistoryEntry(f"t{n}", f"question {n}", f"answer {n}")),
            max_turns=20,
            max_tokens=6_000,
        )
        begins.append(window[0].turn_id)
        assert window[-1].turn_id == f"t{n}"
        assert len(window) >= min(n + 1, 15)

    assert len(set(begins)) == 1 + 580 // 6 + 1


def test_a_cut_window_never_shortens_a_turn_that_fits() -> None:
    long = HistoryEntry("t2", "q" * 9, "word " * 2_500)

    assert next_window(
        [HistoryEntry("t1", "w " * 2_000, "a"), long], max_turns=20, max_tokens=6_000
    ) == (long,)
