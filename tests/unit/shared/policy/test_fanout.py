"""Which sources an intent asks for."""

from __future__ import annotations

import pytest

from shared.contracts.knowledge import GENERAL_INTENT, INTENT_LABELS, Intent
from shared.policy.fanout import settle_intent, sources_for


def test_an_unsure_intent_becomes_general() -> None:
    assert settle_intent(Intent("returns", 0.34), 0.35) == Intent(GENERAL_INTENT, 0.34)
    assert settle_intent(Intent("returns", 0.35), 0.35).label == "returns"


@pytest.mark.parametrize("label", [*INTENT_LABELS, GENERAL_INTENT, "a label of tomorrow"])
def test_every_intent_but_small_talk_asks_retrieval(label: str) -> None:
    expected = () if label in {"chit_chat", "out_of_scope"} else ("retrieval",)

    assert sources_for(label) == expected
