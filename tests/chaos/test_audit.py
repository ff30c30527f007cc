"""The judge of a whole run, with each fault planted once."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import replace

import pytest

from clients import conversation
from shared.contracts.identifiers import MessageId
from shared.contracts.server_frames import (
    ChatAccepted,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponseStarted,
    Timings,
    Usage,
)
from tests.chaos.audit import audit
from tests.chaos.inside import LedgerTurn
from tests.chaos.user import ChaosUser, Script

TURN = "chaos-u.01"
SCRIPT = Script(tokens=3, tokens_per_s=0)
WHOLE_TEXT = SCRIPT.answer()
WHOLE = LedgerTurn(TURN, "u-0", "completed", 1, "w", 0, "inline")
STORED = {
    "status": "completed",
    "assistant_text": WHOLE_TEXT,
    "message_id": "u-0",
    "ref": {"session": {"session_id": "chaos-u"}},
}
CALL = {"ended": "completed"}


def user_with(*frames):
    user = ChaosUser("u", "token", ("ws://nowhere",), random.Random(1))
    asyncio.run(user.say(SCRIPT))
    for frame in frames:
        user.witness.see(frame, 0)
        user.state = conversation.receive(user.state, frame, 0).state
    return user


def answered(text=WHOLE_TEXT):
    return user_with(
        ChatAccepted(message_id=MessageId("u-0"), turn_id=TURN, path="inline", duplicate=False),
        ResponseStarted(turn_id=TURN, attempt=1, seq=0, path="inline", intent="general", model=""),
        ResponseDelta(turn_id=TURN, attempt=1, seq=1, delta=text),
        ResponseCompleted(
            turn_id=TURN,
            attempt=1,
            seq=2,
            stop_reason="end_turn",
            length=len(text),
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            usage=Usage(),
            timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
        ),
    )


def unanswered():
    return user_with(
        ChatAccepted(message_id=MessageId("u-0"), turn_id=TURN, path="inline", duplicate=False)
    )


def refused():
    return user_with(
        ChatAccepted(message_id=MessageId("u-0"), turn_id=TURN, path="inline", duplicate=False),
        ResponseFailed(
            turn_id=TURN,
            attempt=0,
            seq=0,
            code="internal",
            message="",
            retryable=True,
            partial=False,
        ),
    )


def judge(user, ledger=WHOLE, stored=(STORED,), calls=(CALL,)):
    return audit([user], {TURN: ledger}, {TURN: list(stored)}, lambda call_id: list(calls))


def test_whole_turn_is_found_whole():
    found = judge(answered())
    assert found.faults == []
    assert (found.turns, found.ends) == (1, {"completed": 1})


@pytest.mark.parametrize(
    ("user", "changed", "words"),
    [
        (unanswered, {}, "has no end"),
        (answered, {"ledger": replace(WHOLE, status="running")}, "is still running"),
        (answered, {"stored": ()}, "nothing is stored"),
        (answered, {"calls": ()}, "without a model call"),
        (refused, {}, "but its answer is stored"),
    ],
)
def test_losses_are_told(user, changed, words):
    assert any(words in fault for fault in judge(user(), **changed).losses)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"stored": (STORED, STORED)}, "2 stored answers"),
        ({"calls": (CALL, CALL)}, "2 model calls, 1 attempts"),
    ],
)
def test_duplicates_are_told(changed, words):
    assert any(words in fault for fault in judge(answered(), **changed).duplicates)


def test_another_text_than_the_stored_one_is_told():
    stored = {**STORED, "assistant_text": "another"}
    assert any(
        "is not the one shown" in fault for fault in judge(answered(), stored=(stored,)).mixed
    )


def test_text_that_the_model_did_not_say_is_told():
    assert any("what the model said" in fault for fault in judge(answered("mixed")).mixed)
