"""Whatever becomes of a turn, its words are in no log line and no metric."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from shared.clock import SystemClock
from shared.errors import GuardrailBlocked, ModelOverloaded, ModelRejected
from shared.telemetry import configure_logging
from tests.fakes.model import CutOff, Forever
from tests.fakes.turn_world import TurnWorld

QUESTION = "What may nobody ever read?"
ANSWER = "The hidden words"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("burstchat")
    kept, levels = root.handlers[:], (root.level, ours.level)
    buffer = io.StringIO()
    configure_logging("orchestrator", "debug", SystemClock(), buffer)
    yield buffer
    root.handlers[:] = kept
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([ANSWER], id="answered"),
        pytest.param([ANSWER, ModelOverloaded("busy")], id="broke off"),
        pytest.param([ANSWER, CutOff()], id="cut off"),
        pytest.param([ModelRejected("no")], id="rejected"),
        pytest.param([ANSWER, GuardrailBlocked(ANSWER)], id="blocked"),
        pytest.param([ANSWER, LookupError(ANSWER)], id="a bug that quotes"),
        pytest.param([ANSWER, Forever()], id="silent"),
    ],
)
async def test_a_turns_words_are_never_logged(script: list[Any], log: io.StringIO) -> None:
    world = TurnWorld(script)
    async with world.running():
        await world.answer(QUESTION)

    written = log.getvalue()
    assert '"event":"turn.claimed"' in written
    for words in (QUESTION, ANSWER):
        assert words not in written
        assert words not in world.metrics.getvalue()
