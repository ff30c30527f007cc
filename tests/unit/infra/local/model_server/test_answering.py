"""What the offline model says: a function of the prompt alone, of everything that the prompt brought."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from infra.local.model_server.answering import SIGNATURE, compose_answer
from infra.local.model_server.messages import Block, Message, MessagesRequest

PASSAGES = (
    "<passages>\n"
    '<passage id="returns#1" title="Returns &amp; refunds">You may return unread volumes within 30 '
    "days. Refunds take five days. We also like cats.</passage>\n"
    '<passage id="berserk#1" title="Berserk">Berserk by Kentaro Miura. Genres: dark fantasy. Volumes: 43. '
    "Volumes as of: 2025. Status: ongoing. Age: mature. Also known as kenpuu denki.\n"
    "A mercenary is hunted by demons.</passage>\n"
    "</passages>"
)
SIMILAR = (
    "<similar_titles>\n"
    '<similar_title id="claymore#1" title="Claymore" shares="revenge, action" like="Berserk">Claymore by Norihiro '
    "Yagi. Volumes: 27. Age: mature.\nWarriors hunt shape-shifters. The end.</similar_title>\n"
    '<similar_title id="pluto#1" title="Pluto" shares="revenge" like="Berserk">Pluto by Naoki Urasawa. '
    "Volumes: 8.\nA robot detective investigates.</similar_title>\n"
    "</similar_titles>"
)
RULES = "You are Shelf. You help readers choose books and find their orders. Be kind."


def answer(question: str, data: str = "", history: Sequence[tuple[str, str]] = ()) -> str:
    messages = [Message(role=role, content=text) for role, text in history]
    blocks = [Block(text=text) for text in (data, question) if text]
    request = MessagesRequest(
        model="m",
        max_tokens=100,
        system=RULES,
        messages=[*messages, Message(role="user", content=blocks)],
    )
    return compose_answer(request)


@pytest.mark.parametrize(
    "question", ["Who wrote Berserk?", "hello", "what did I ask before?", "xyzzy"]
)
def test_every_answer_says_once_that_an_offline_model_wrote_it(question: str) -> None:
    said = answer(question, PASSAGES)

    assert said.endswith(SIGNATURE)
    assert said.count("offline") == 1


def test_a_question_for_facts_is_answered_with_those_facts_alone() -> None:
    assert answer("How many volumes of Berserk, and is it finished?", PASSAGES).startswith(
        "**Berserk** – volumes: 43; status: ongoing.\n"
    )
    assert answer("Who wrote Berserk?", PASSAGES).startswith("**Berserk** is by Kentaro Miura.\n")
    assert answer("Who wrote Berserk and how old is it?", PASSAGES).startswith(
        "**Berserk** is by Kentaro Miura; age: mature.\n"
    )


def test_a_title_is_told_of_by_its_description() -> None:
    said = answer("Tell me about Berserk", PASSAGES)

    assert said.startswith("**Berserk** by Kentaro Miura: A mercenary is hunted by demons.")
    assert "Volumes" not in said
    assert "Refunds" not in said


def test_the_answer_quotes_the_page_that_shares_words_with_the_question() -> None:
    said = answer("Can I return volumes?", PASSAGES)

    assert "**Returns & refunds**: You may return unread volumes within 30 days." in said
    assert "**Berserk**" not in said


def test_what_was_found_is_used_even_when_no_word_is_shared() -> None:
    said = answer("asdf?", PASSAGES)

    assert "**Returns & refunds**" in said
    assert "nothing" not in said


def test_suggestions_name_what_they_share_and_who_they_are_for() -> None:
    said = answer("something like Berserk", f"{SIMILAR}\n{PASSAGES}")

    assert said.startswith(
        "If you like Berserk, try these:\n\n- **Claymore** (mature): revenge, action. Warriors hunt"
    )
    assert "- **Pluto**: revenge. A robot detective investigates." in said
    assert "**Returns & refunds**" not in said


def test_suggestions_without_a_model_are_what_was_looked_for() -> None:
    said = answer("revenge please", SIMILAR.replace(' like="Berserk"', ""))

    assert said.startswith("These have what you are looking for:")


def test_an_order_comes_before_the_rule_that_the_question_is_about() -> None:
    orders = '<orders>\n<order number="MA-1" status="shipped" placed="2026-11-27">1 x Pluto</order>\n</orders>'

    assert answer("Where is my order?", f"{orders}\n{PASSAGES}").startswith(
        "Order **MA-1** is **shipped**"
    )
    assert "**Returns" not in answer("Where is my order?", f"{orders}\n{PASSAGES}")
    both = answer("Can I return unread volumes of my order?", f"{orders}\n{PASSAGES}")
    assert both.index("**MA-1**") < both.index("**Returns & refunds**")


def test_asked_for_the_past_it_names_earlier_messages() -> None:
    history = [
        ("user", "Do you have Akira?"),
        ("assistant", "Yes."),
        ("user", "Thanks"),
        ("assistant", "!"),
    ]

    said = answer("What did I ask before?", history=history)
    assert "2 messages" in said
    assert "- “Do you have Akira?”\n- “Thanks”" in said
    assert "“Do you have Akira?”" in answer("What was my first question?", history=history)
    assert "“Thanks”" not in answer("What was my first question?", history=history)


def test_asked_for_the_past_at_the_start_it_says_there_is_none() -> None:
    assert "first message" in answer("what did I ask you before?")


def test_a_short_follow_up_leans_on_the_question_before() -> None:
    history = [("user", "Can I return unread volumes?"), ("assistant", "Yes.")]

    assert "Returns & refunds" in answer("and then?", PASSAGES, history)


@pytest.mark.parametrize(
    ("question", "begin"),
    [
        ("hi there", "Hello!"),
        ("Thank you so much!", "You are welcome!"),
        ("bye", "Goodbye"),
        ("how are you?", "All is well"),
        ("are you a bot?", "I am a program."),
        ("what can you do?", "Gladly:"),
        ("tell me a joke", "Why did"),
        ("blorp fnord wibble", "I found nothing about that"),
        ("What is the weather tomorrow?", "I found nothing about that"),
    ],
)
def test_small_talk_and_nonsense_are_answered_with_what_the_assistant_is_for(
    question: str, begin: str
) -> None:
    said = answer(question)

    assert said.startswith(begin)
    assert "I help readers choose books and find their orders." in said
    assert "**" not in said


def test_findings_and_question_in_one_block_are_told_apart() -> None:
    assert "**Berserk**" in answer(f"{PASSAGES}\nWho wrote Berserk?")


def test_a_price_that_no_page_tells_is_left_to_the_product_page() -> None:
    said = answer("How much is Berserk?", PASSAGES)

    assert said.startswith("**Berserk**: I do not know prices; the product page shows its price.")


def test_passages_of_one_page_are_told_together_in_its_order() -> None:
    def passage(number: int, text: str) -> str:
        return f'<passage id="s#{number}" title="Shipping">{text}</passage>\n'

    abroad, home = "Shipping abroad takes 9 days.", "Standard shipping takes 3 days."
    found = f"<passages>\n{passage(2, abroad)}{passage(1, home)}</passages>"

    assert answer("how long does shipping take?", found).startswith(
        f"**Shipping**: {home} {abroad}\n"
    )


def test_a_title_is_said_once() -> None:
    page = '<passages>\n<passage id="c#1" title="Chain">Chain. Price: 10.\nA new chain.</passage>\n</passages>'

    assert answer("tell me about the chain", page).startswith("**Chain**: A new chain.\n")


def test_facts_are_asked_for_in_german_too() -> None:
    assert answer("Wie viele Bände hat Berserk?", PASSAGES).startswith("**Berserk** – volumes: 43")
    assert answer("Wer hat Berserk geschrieben?", PASSAGES).startswith("**Berserk** is by")


def test_a_follow_up_of_a_return_is_about_the_order_and_the_rules_of_that() -> None:
    orders = (
        '<orders>\n<order number="MA-1" status="shipped" placed="2026-11-27">1 x Pluto</order>\n'
        '<order number="MA-2" status="delivered" return_by="2026-12-18">1 x Emma</order>\n</orders>'
    )
    history = [("user", "What can I return?"), ("assistant", "Order MA-2.")]

    said = answer("And for how long?", f"{orders}\n{PASSAGES}", history)
    assert said.startswith("Order **MA-2**")
    assert "within 30 days" in said
