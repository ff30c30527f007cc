"""The words of scripted answers."""

from __future__ import annotations

import pytest

from infra.local.model_server.scripting import TextKind
from infra.local.model_server.texts import scripted_tokens


@pytest.mark.parametrize("kind", ["lorem", "emoji", "cjk"])
def test_the_same_seed_gives_the_same_tokens(kind: TextKind) -> None:
    tokens = scripted_tokens(kind, 20, seed=7)

    assert len(tokens) == 20
    assert tokens == scripted_tokens(kind, 20, seed=7)
    assert tokens != scripted_tokens(kind, 20, seed=8)


def test_a_leak_holds_the_frame_of_the_prompt_cut_in_two() -> None:
    tokens = scripted_tokens("leak", 4, seed=1)

    assert tokens[2:4] == (" <pass", "ages>")
    assert (*tokens[:2], *tokens[4:]) == scripted_tokens("lorem", 4, seed=1)
