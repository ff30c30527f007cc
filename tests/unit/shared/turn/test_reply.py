"""The reply as a fold, and what its end means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, TextDelta
from shared.contracts.server_frames import Usage
from shared.turn.reply import (
    ANSWERED,
    Answered,
    CutOff,
    Declined,
    Reply,
    conclude,
    fold,
    fresh_text,
)

STOP = ModelStopped("end_turn", Usage(output_tokens=3))
events = st.one_of(
    st.builds(TextDelta, st.text(" \na", max_size=3)), st.just(ModelAlive()), st.just(STOP)
)


@given(st.lists(st.lists(events, max_size=4), max_size=8))
def test_what_is_shown_piece_by_piece_is_what_is_shown_in_the_end(
    reads: list[list[ModelEvent]],
) -> None:
    reply = Reply()
    shown = ""
    for read in reads:
        before, reply = reply, fold(reply, read)
        shown += fresh_text(before, reply)

    assert shown == reply.shown
    assert reply == fold(Reply(), [event for read in reads for event in read])
    assert bool(shown) == bool(reply.text.strip())


def test_white_space_is_held_back_until_something_is_visible() -> None:
    blank = fold(Reply(), [TextDelta(" \n")])
    visible = fold(blank, [TextDelta("a")])

    assert fresh_text(Reply(), blank) == ""
    assert fresh_text(blank, visible) == " \na"


def test_text_after_the_stop_does_not_count() -> None:
    reply = fold(Reply(), [TextDelta("a"), STOP, TextDelta("b")])

    assert (reply.text, reply.stopped) == ("a", STOP)
    assert fold(reply, [ModelAlive()]) is reply


@pytest.mark.parametrize("reason", sorted(ANSWERED))
@pytest.mark.case("B-13")
def test_a_known_reason_with_text_is_an_answer_and_without_text_is_none(reason: str) -> None:
    stop = ModelStopped(reason, Usage())

    assert conclude(fold(Reply(), [TextDelta("a"), stop])) == Answered(reason, Usage())
    assert conclude(fold(Reply(), [TextDelta("  "), stop])) == Declined(reason)


@pytest.mark.parametrize("reason", ["refusal", "pause_turn", "tool_use", "", "new_word"])
@pytest.mark.case("B-13")
def test_any_other_reason_is_no_answer(reason: str) -> None:
    reply = fold(Reply(), [TextDelta("a"), ModelStopped(reason, Usage())])

    assert conclude(reply) == Declined(reason)


def test_a_stream_without_a_reason_was_cut_off() -> None:
    assert conclude(fold(Reply(), [TextDelta("a")])) == CutOff()
