import pytest

from infra.local.model_server.scripting import FAULTS, Mistyped, Script, find_script, parse_script


def test_a_bare_sim_has_the_documented_defaults():
    assert find_script(["/sim"]) == Script(tokens=100, ttft_ms=300, tokens_per_s=50, text="lorem")


def test_every_word_of_the_protocol_is_read():
    script = find_script(
        [
            "/sim tokens=5 ttft_ms=1 tokens_per_s=9 text=cjk seed=3 fault=rate_limit times=2 id=A "
            "keep=1 retry_after_s=4"
        ]
    )
    assert script == Script(
        tokens=5,
        ttft_ms=1,
        tokens_per_s=9,
        text="cjk",
        seed=3,
        fault="rate_limit",
        times=2,
        id="A",
        keep=True,
        retry_after_s=4,
    )


@pytest.mark.parametrize(
    "text",
    ["  /sim tokens=7", "<question>/sim tokens=7</question>", "The user says:\n/sim tokens=7\n"],
)
def test_a_wrapped_message_is_still_a_script(text):
    script = find_script(["<passages>…</passages>", text])
    assert script is not None
    assert script.tokens == 7


@pytest.mark.parametrize(
    "texts",
    [
        (),
        ["hello"],
        ["what does /sim do?"],
        ["/simple question"],
        ["/sim tokens=1", "the user's own words"],
    ],
)
def test_other_messages_are_no_scripts(texts):
    assert find_script(texts) is None


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_known(name):
    assert parse_script(f"fault={name}").fault == name


def test_a_fault_carries_its_count():
    script = parse_script("fault=stall_after:12")
    assert (script.fault, script.fault_count) == ("stall_after", 12)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("tokns=1", "unknown word 'tokns=1'"),
        ("tokens", "unknown word 'tokens'"),
        ("tokens=-1", "not a whole number"),
        ("tokens=1000001", "not a whole number"),
        ("text=latin", "none of lorem, emoji, cjk"),
        ("fault=nope", "unknown fault 'nope'"),
        ("fault=overloaded:3", "takes no count"),
        ("fault_count=3", "unknown word"),
        ("keep=2", "not a whole number"),
    ],
)
def test_a_mistyped_script_says_which_word_is_wrong(words, sentence):
    with pytest.raises(Mistyped, match=sentence):
        parse_script(words)
