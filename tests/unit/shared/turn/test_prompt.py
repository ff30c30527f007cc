"""A request that the Messages API always accepts."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.knowledge import Passage
from shared.contracts.model import Prompt
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry
from shared.errors import MalformedMessage
from shared.policy.history_window import fit_history
from shared.turn.prompt import build_prompt, passages_text, source_links
from tests.fakes.limits import answer_plan

PLAN = answer_plan("claude-test", max_tokens=77)
markup = st.text("<>/\"'& passage=\n", max_size=60)
passages = st.builds(Passage, markup, markup, markup, st.just(1.0), st.just("d"))
entries = st.builds(HistoryEntry, st.just("t"), st.text(max_size=9), st.text(max_size=9))


def build(history: list[HistoryEntry], found: list[Passage], question: str) -> Prompt:
    window = fit_history(history, max_turns=20, max_tokens=6_000)
    return build_prompt(
        system="Be kind.", history=window, passages=found, question=question, plan=PLAN
    )


@given(
    st.lists(entries, max_size=22),
    st.lists(passages, max_size=3),
    st.text(min_size=1).filter(str.strip),
)
@pytest.mark.case("B-33")
def test_every_prompt_alternates_ends_with_the_question_and_has_no_blank_text(
    history: list[HistoryEntry], found: list[Passage], question: str
) -> None:
    prompt = build(history, found, question)

    roles = [message.role for message in prompt.messages]
    assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    assert roles[-1] == "user"
    *_, last = prompt.messages
    assert isinstance(last.content, list)
    assert last.content[-1] == {"type": "text", "text": question}
    assert len(last.content) == (2 if found else 1)
    texts = [
        block["text"] if isinstance(block, dict) else block
        for message in prompt.messages
        for block in ([message.content] if isinstance(message.content, str) else message.content)
    ]
    assert all(text.strip() for text in texts)


@given(st.lists(passages, max_size=4))
def test_passages_cannot_close_their_elements(found: list[Passage]) -> None:
    text = passages_text(found)

    elements = re.findall(r'<passage id="([^"]*)" title="([^"]*)">([^<]*)</passage>', text)
    assert [(unescape(a), unescape(b), unescape(c)) for a, b, c in elements] == [
        (passage.id, passage.title, passage.text) for passage in found
    ]
    assert text.startswith("<passages>")
    assert text.endswith("</passages>")
    assert text.count("</passages>") == 1


@pytest.mark.case("B-40")
def test_the_prefix_is_stable_from_turn_to_turn() -> None:
    first = build([], [], "one")
    second = build([HistoryEntry("t1", "one", "answer")], [], "two")

    assert (first.system, first.model, first.max_tokens) == ("Be kind.", "claude-test", 77)
    assert second.system == first.system
    assert second.messages[0].content == "one"


@pytest.mark.parametrize("question", ["", "  ", "\n\t"])
@pytest.mark.case("B-12")
def test_a_blank_question_is_refused(question: str) -> None:
    with pytest.raises(MalformedMessage):
        build([], [], question)


def test_sources_are_the_documents_each_once_best_first() -> None:
    found = [
        Passage("p1", "Sea Song", "a", 0.9, "d1"),
        Passage("p2", "Shipping", "b", 0.8, "d2"),
        Passage("p3", "Sea Song, cont.", "c", 0.7, "d1"),
    ]

    assert source_links(found) == (
        SourceLink(title="Sea Song", id="d1"),
        SourceLink(title="Shipping", id="d2"),
    )
