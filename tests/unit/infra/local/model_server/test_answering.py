from infra.local.model_server.answering import SIGNATURE, compose_answer, find_passages
from infra.local.model_server.messages import Block, Message, MessagesRequest

PASSAGES = (
    "<passages>\n"
    '<passage id="returns" title="Returns &amp; refunds">You may return unread volumes within 30 '
    "days. Refunds take five days. We also like cats.</passage>\n"
    '<passage id="berserk" title="Berserk">Berserk is a dark fantasy by Kentaro Miura.</passage>\n'
    "</passages>"
)


def request(question, *, passages=None, history=()):
    messages = [Message(role=role, content=text) for role, text in history]
    blocks = [Block(text=text) for text in (passages, question) if text]
    return MessagesRequest(
        model="m", max_tokens=100, messages=[*messages, Message(role="user", content=blocks)]
    )


def test_passages_are_read_with_their_titles_unescaped():
    found = find_passages([PASSAGES])
    assert [(p.id, p.title) for p in found] == [
        ("returns", "Returns & refunds"),
        ("berserk", "Berserk"),
    ]


def test_the_answer_quotes_the_passage_that_shares_words_with_the_question():
    answer = compose_answer(request("Who wrote Berserk?", passages=PASSAGES))
    assert "**Berserk**: Berserk is a dark fantasy by Kentaro Miura." in answer
    assert "Refunds" not in answer


def test_every_answer_says_that_an_offline_model_wrote_it():
    for question in ("Who wrote Berserk?", "hello", "what did I ask before?"):
        assert compose_answer(request(question, passages=PASSAGES)).endswith(SIGNATURE)


def test_asked_for_the_past_it_names_earlier_messages():
    history = [("user", "Do you have Akira?"), ("assistant", "Yes.")]
    answer = compose_answer(request("What did I ask before?", history=history))
    assert "“Do you have Akira?”" in answer


def test_asked_for_the_past_at_the_start_it_says_there_is_none():
    assert "first message" in compose_answer(request("what did I ask you before?"))


def test_a_short_follow_up_leans_on_the_question_before():
    history = [("user", "Can I return unread volumes?"), ("assistant", "Yes.")]
    answer = compose_answer(request("and then?", passages=PASSAGES, history=history))
    assert "Returns & refunds" in answer


def test_without_a_fitting_passage_it_invents_nothing():
    answer = compose_answer(request("weather tomorrow", passages=PASSAGES))
    assert "no passage" in answer
    assert "**" not in answer


def test_passages_and_question_in_one_block_are_told_apart():
    answer = compose_answer(request(f"{PASSAGES}\nWho wrote Berserk?"))
    assert "**Berserk**" in answer
