"""Text of a scripted answer: the same seed always gives the same tokens."""

from __future__ import annotations

import random

from infra.local.model_server.scripting import TextKind

_LOREM_TEXT = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut "
    "labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris "
    "nisi aliquip ex ea commodo consequat"
)
_LOREM = _LOREM_TEXT.split()
# Beyond the basic plane, joined sequences, flags and skin tones: what naive cutting breaks.
_EMOJI = ("🙂", "📚", "🚀", "👩‍👩‍👧‍👦", "🇯🇵", "👍🏽", "🧑‍🚀", "❤️", "🎌", "🦊")
# What no reply may hold, cut as a model might cut it.
_LEAK = (" <pass", "ages>")
_CJK = "漫画の巻を探して物語が続く新刊本棚少年少女剣と魔法旅人東京夜明け海賊王忍者猫"


def scripted_tokens(kind: TextKind, count: int, seed: int) -> tuple[str, ...]:
    """`count` tokens whose concatenation is the answer."""
    rng = random.Random(seed)  # repeatable text, not a secret
    if kind == "emoji":
        return tuple(rng.choice(_EMOJI) for _ in range(count))
    if kind == "cjk":
        return tuple(rng.choice(_CJK) for _ in range(count))
    words = [rng.choice(_LOREM) for _ in range(count)]
    tokens = tuple(word if index == 0 else f" {word}" for index, word in enumerate(words))
    if kind == "leak":
        middle = count // 2
        return (*tokens[:middle], *_LEAK, *tokens[middle:])
    return tokens
