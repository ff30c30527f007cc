"""Tokens without a tokenizer: an estimate that errs on the safe side."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.contracts.model import Prompt, PromptMessage
from shared.policy.token_estimate import estimate_prompt_tokens, estimate_tokens

CHANCE = random.Random(7)
TEXTS = {
    "english": "Can I return an opened box set if it arrived damaged? Thanks, that helps me a lot! "
    * 9,
    "german": "Donaudampfschifffahrtsgesellschaft: Bestellungen über fünfzig Euro sind frei. " * 9,
    "french": "Où est ma commande ? J'ai été débité deux fois, c'est inadmissible. " * 9,
    "japanese": "漫画のおすすめを教えてください。進撃の巨人みたいな作品が好きです。" * 9,
    "chinese": "我想退货，请问需要多长时间？订单号是一二三。" * 9,
    "russian": "Где мой заказ? Он ещё не пришёл. " * 9,
    "arabic": "أين طلبي؟ لم يصل بعد " * 9,
    "thai": "สวัสดีครับ ผมต้องการคืนสินค้า " * 9,
    "hindi": "मेरा ऑर्डर कहाँ है? " * 9,
    "emoji": "".join(CHANCE.choice("😀😂🤣🥰🦊🐋🏯🗾") for _ in range(400)),
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 60,
    "base64": base64.b64encode(CHANCE.randbytes(3_000)).decode(),
    "digits": "".join(CHANCE.choice("0123456789") for _ in range(3_000)),
    "marks": "".join(CHANCE.choice("!@#$%^&*()_+{}|:<>?") for _ in range(3_000)),
    "one letter": "a" * 4_000,
    "single letters": "a b c d e f g h " * 99,
    "blanks": " " * 3_000,
    "lines": "\n" * 2_000,
    "combining marks": "Z̷̢̛͈a̸l̵g̶o̷ " * 99,
    "control characters": "\x00\x01" * 300,
    "code": "def f(x: int) -> list[str]:\n    return [str(y) for y in range(x) if y % 2]\n" * 20,
}


@pytest.fixture(scope="module")
def tokenizer():
    """Llama 2's, which the embedding brings along."""
    embedder = WordLlamaEmbedder()
    embedder.load()
    found = embedder._model.tokenizer
    found.no_truncation()
    found.no_padding()
    return found


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_is_no_less_than_a_tokenizer_of_few_pieces_counts(
    kind: str, tokenizer
) -> None:
    counted = len(tokenizer.encode(TEXTS[kind], add_special_tokens=False).ids)
    assert counted <= estimate_tokens(TEXTS[kind])


@pytest.mark.parametrize("kind", ["english", "german", "french", "japanese", "code"])
def test_the_estimate_wastes_less_than_half_of_a_window(kind: str, tokenizer) -> None:
    counted = len(tokenizer.encode(TEXTS[kind], add_special_tokens=False).ids)
    assert estimate_tokens(TEXTS[kind]) < 2 * counted


@given(st.text(max_size=200))
def test_no_text_costs_more_than_its_bytes_and_its_message(text: str) -> None:
    assert 4 <= estimate_tokens(text) <= 4 + len(text.encode())


@given(st.text(max_size=99), st.text(max_size=99))
def test_a_longer_text_never_costs_less(one: str, two: str) -> None:
    assert estimate_tokens(one) <= estimate_tokens(one + two)


def test_a_prompt_costs_what_all_its_texts_cost() -> None:
    prompt = Prompt(
        model="m",
        system="Be kind.",
        messages=(
            PromptMessage("user", "Hi"),
            PromptMessage("assistant", "Hello"),
            PromptMessage(
                "user", [{"type": "text", "text": "data"}, {"type": "text", "text": "q"}]
            ),
        ),
        max_tokens=5,
    )

    texts = ["Be kind.", "Hi", "Hello", "data", "q"]
    assert estimate_prompt_tokens(prompt) == sum(map(estimate_tokens, texts))
