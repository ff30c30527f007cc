"""How many tokens a text will cost, without a tokenizer."""

from __future__ import annotations

_BYTES_PER_TOKEN = 3
_MESSAGE_OVERHEAD_TOKENS = 4


def estimate_tokens(text: str) -> int:
    """An upper estimate: one token per three bytes of UTF-8, and four for the message around it.

    English has about four bytes per token and Japanese about three, so the bound errs on the safe side.
    """
    return -(-len(text.encode()) // _BYTES_PER_TOKEN) + _MESSAGE_OVERHEAD_TOKENS
