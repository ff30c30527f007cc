import json

import pytest

from infra.local.model_server import messages


def body(**changes):
    valid = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    return json.dumps({**valid, **changes}).encode()


def test_a_request_keeps_what_an_answer_depends_on():
    request = messages.decode_request(
        body(system=[{"type": "text", "text": "be brief"}], temperature=0.5, stream=True)
    )
    assert (request.model, request.stream, request.last_user_texts()) == ("m", True, ("hi",))
    assert request.input_tokens() == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "first message"),
        ({"messages": [{"role": "user", "content": ""}]}, "non-empty"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "\n"}]}]},
            "whitespace",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]},
            "role",
        ),
        ({"model": 5}, "model"),
    ],
)
def test_what_the_real_service_refuses_is_refused(changes, sentence):
    with pytest.raises(messages.InvalidRequest, match=sentence):
        messages.decode_request(body(**changes))


def test_a_delta_is_one_server_sent_event_whatever_the_text():
    text = 'quote " newline \n ünï 👩‍👩‍👧‍👦'
    name, data = messages.text_delta(text).decode().rstrip("\n").split("\n")
    assert name == "event: content_block_delta"
    assert json.loads(data.removeprefix("data: "))["delta"]["text"] == text
