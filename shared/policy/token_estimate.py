"""How many tokens a text will cost, without a tokenizer."""

from __future__ import annotations

import re

from shared.contracts.model import Prompt

_MESSAGE_OVERHEAD_TOKENS = 4
_PIECE = re.compile(r"[a-z]{1,3}| {2,16}|[^a-z ]")
_DENSE = re.compile(r"[a-z]{16,}")
# Beyond Latin, Greek and Cyrillic letters a character seldom is one piece; beyond the basic plane it never is.
_HEAVY = re.compile("[\u0250-\u036f\u0530-\uffff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def estimate_tokens(text: str) -> int:
    """An upper estimate of one message: four tokens for the message itself, and its text by what it is made of.

    One token for up to three lower-case letters of a word (twice that from 16 letters on) and for every other
    character but a single blank; two for a character of most scripts but Latin, Greek and Cyrillic; four for emoji.

    Language, code, numbers and emoji stay below it with the Llama 2 tokenizer, whose 32,000 pieces are fewer, so cut
    finer, than those of the models used here; letters by chance cost up to two thirds more. No text costs more tokens
    than it has bytes: such tokenizers fall back to bytes.
    """
    tokens = len(_PIECE.findall(text)) + _MESSAGE_OVERHEAD_TOKENS
    tokens += sum(map(len, _DENSE.findall(text))) // 3
    if not text.isascii():
        tokens += len(_HEAVY.findall(text)) + 3 * len(_ASTRAL.findall(text))
    return tokens


def estimate_prompt_tokens(prompt: Prompt) -> int:
    """An upper estimate of a whole prompt, its answer not included."""
    texts = [prompt.system]
    for message in prompt.messages:
        if isinstance(message.content, str):
            texts.append(message.content)
        else:
            texts.extend(str(block["text"]) for block in message.content)
    return sum(map(estimate_tokens, texts))
