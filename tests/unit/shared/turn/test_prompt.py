"""A request that the Messages API always accepts."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.knowledge import Passage, SimilarTitle
from shared.contracts.model import Prompt
from shared.contracts.orders import Order, OrderLine
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry
from shared.errors import MalformedMessage
from shared.policy.token_estimate import estimate_prompt_tokens
from shared.turn.findings import Findings
from shared.turn.prompt import Composed, compose_prompt
from tests.fakes.limits import answer_plan

PLAN = answer_plan("claude-test", max_tokens=77)
markup = st.text("<>/\"'& passage=\n", max_size=60)
passages = st.builds(Passage, markup, markup, markup, st.just(1.0), st.just("d"))
entries = st.builds(HistoryEntry, st.just("t"), st.text(max_size=9), st.text(max_size=9))
ORDER = Order(
    number="MA-1",
    status="shipped",
    placed_on="2026-11-20",
    lines=(OrderLine(title="Pluto & co", quantity=2, price="25.98 USD"),),
    note="<b>Left at the door</b>",
)


def compose(
    history: list[HistoryEntry],
    findings: Findings,
    question: str,
    *,
    system: str = "Be kind.",
    max_tokens: int = 24_000,
) -> Composed:
    return compose_prompt(
        system=system,
        history=history,
        findings=findings,
        question=question,
        plan=PLAN,
        max_tokens=max_tokens,
    )


def build(history: list[HistoryEntry], found: list[Passage], question: str) -> Prompt:
    return compose(history, Findings(passages=tuple(found)), question).prompt


def data_of(findings: Findings) -> str:
    (message,) = compose([], findings, "q").prompt.messages
    return str(message.content[0]["text"])  # type: ignore[index,call-overload]


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


@given(st.lists(passages, min_size=1, max_size=4))
def test_passages_cannot_close_their_elements(found: list[Passage]) -> None:
    text = data_of(Findings(passages=tuple(found)))

    elements = re.findall(r'<passage id="([^"]*)" title="([^"]*)">([^<]*)</passage>', text)
    assert [(unescape(a), unescape(b), unescape(c)) for a, b, c in elements] == [
        (passage.id, passage.title, passage.text) for passage in found
    ]
    assert text.startswith("<passages>")
    assert text.endswith("</passages>")
    assert text.count("</passages>") == 1


@given(markup, markup, markup)
def test_neither_orders_nor_suggestions_can_close_their_elements(a: str, b: str, c: str) -> None:
    order = Order(number=a, status=b, placed_on=c, lines=(OrderLine(title=a),), note=c)
    similar = SimilarTitle(passage=Passage(a, b, c, 1.0, "d"), shares=(a, b), like=(c,))

    text = data_of(Findings(orders=(order,), has_orders=True, similar=(similar,)))

    for tag in ("orders", "order", "similar_titles", "similar_title"):
        assert len(re.findall(rf"<{tag}[ >]", text)) == text.count(f"</{tag}>") == 1
    assert text.count("<") == 8


def test_an_order_tells_what_is_known_of_it_and_no_orders_are_told_as_none() -> None:
    text = data_of(Findings(orders=(ORDER,), has_orders=True))

    assert '<order number="MA-1" status="shipped" placed="2026-11-20">' in text
    assert "2 x Pluto &amp; co (25.98 USD)\n&lt;b&gt;Left at the door" in text
    assert "delivered" not in text
    assert data_of(Findings(has_orders=True)) == "<orders>\n</orders>"


@pytest.mark.case("B-40")
def test_the_prefix_of_each_prompt_stands_byte_for_byte_in_the_next() -> None:
    history: list[HistoryEntry] = []
    before: Prompt | None = None
    for number in range(20):
        found = [Passage(f"p{number}", "Sea Song", "whales", 1.0, "d")]
        prompt = build(history, found, f"question {number}")
        assert (prompt.model, prompt.max_tokens) == ("claude-test", 77)
        assert prompt.stable_messages == 2 * number
        if before is not None:
            assert prompt.system == before.system
            stable = before.messages[: before.stable_messages]
            assert prompt.messages[: len(stable)] == stable
        before = prompt
        history.append(HistoryEntry(f"t{number}", f"question {number}", f"answer {number}"))


def test_a_window_that_had_to_drop_turns_is_not_worth_the_cache() -> None:
    history = [HistoryEntry(f"t{n}", "q", "a") for n in range(PLAN.history_turns + 1)]

    assert build(history, [], "next").stable_messages == 0


@pytest.mark.parametrize("question", ["", "  ", "\n\t"])
@pytest.mark.case("B-12")
def test_a_blank_question_is_refused(question: str) -> None:
    with pytest.raises(MalformedMessage):
        build([], [], question)


def test_sources_are_what_stands_in_the_prompt_each_once_in_its_order() -> None:
    found = (
        Passage("p1", "Sea Song", "a", 0.9, "d1"),
        Passage("p2", "Shipping", "b", 0.8, "d2"),
        Passage("p3", "Sea Song, cont.", "c", 0.7, "d1"),
    )
    similar = SimilarTitle(passage=Passage("s1", "Pluto", "d", 1.0, "d3"), shares=("robots",))

    composed = compose([], Findings(passages=found, similar=(similar,), orders=(ORDER,)), "q")

    assert composed.sources == (
        SourceLink(title="Your order MA-1", id="order:MA-1"),
        SourceLink(title="Pluto", id="d3"),
        SourceLink(title="Sea Song", id="d1"),
        SourceLink(title="Shipping", id="d2"),
    )
    assert compose([], Findings(has_orders=True), "q").sources == ()


HOSTILE = {
    "emoji": "🦊" * 4_000,
    "cjk": "漫画" * 2_700,
    "base64": "QmFzZTY0IGlzIG5vdCBwcm9zZQ+/" * 580,
    "marks": "<&>" * 5_400,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("max_tokens", [500, 5_000, 24_000])
def test_no_text_makes_the_prompt_exceed_its_budget_but_rules_and_question(
    kind: str, max_tokens: int
) -> None:
    text = HOSTILE[kind]
    found = tuple(Passage(f"p{n}", "T", text[:1_200], 1.0, f"d{n}") for n in range(5))
    history = [HistoryEntry(f"t{n}", text, text) for n in range(20)]

    composed = compose(history, Findings(passages=found), text, max_tokens=max_tokens)

    prompt = composed.prompt
    bare = compose([], Findings(), text, max_tokens=max_tokens).prompt
    assert prompt.messages[-1].content[-1]["text"] == text  # type: ignore[index,call-overload]
    assert estimate_prompt_tokens(prompt) <= max(max_tokens, estimate_prompt_tokens(bare))
    told = str(prompt.messages[-1].content)
    assert {source.id for source in composed.sources} == {
        passage.source_id for passage in found if f'id="{passage.id}"' in told
    }


def test_what_was_found_goes_before_history_when_both_do_not_fit() -> None:
    found = Passage("p", "Sea Song", "whales " * 60, 1.0, "d")
    history = [HistoryEntry(f"t{n}", "word " * 40, "word " * 40) for n in range(9)]

    composed = compose(history, Findings(passages=(found,)), "q", max_tokens=700)

    assert [source.id for source in composed.sources] == ["d"]
    assert 1 < len(composed.prompt.messages) < 19
