"""A stored turn as frames."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from shared.contracts.identifiers import SessionId, SessionRef, TenantId, TurnId, TurnRef, UserId
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseStarted,
    Timings,
    Usage,
    encode_frame,
)
from shared.contracts.stored_turns import StoredTurn
from shared.turn.stored_replay import stored_frames

TURN = StoredTurn(
    ref=TurnRef(SessionRef(TenantId("acme"), UserId("ana"), SessionId("s")), TurnId("s.1")),
    message_id="m",
    attempt=2,
    nonce="n",
    status="completed",
    user_text="Hi",
    assistant_text="Ah 🦊",
    stop_reason="end_turn",
    intent="general",
    model="claude-test",
    usage=Usage(input_tokens=1, output_tokens=2),
    timings=Timings(queued_ms=1, first_token_ms=2, total_ms=3),
    sources=(),
    accepted_at_ms=1,
    completed_at_ms=2,
)


def stored(**changes: Any) -> StoredTurn:
    return msgspec.structs.replace(TURN, **changes)


def test_a_replay_is_one_attempt_above_the_recorded_one() -> None:
    frames = stored_frames(TURN, attempt=3)

    assert [(frame.attempt, frame.seq) for frame in frames] == [(3, 0), (3, 1), (3, 2)]
    started, delta, end = frames
    assert isinstance(started, ResponseStarted)
    assert started.path == "stored"
    assert isinstance(delta, ResponseDelta)
    assert delta.delta == "Ah 🦊"
    assert isinstance(end, ResponseCompleted)
    assert (end.length, end.sha256) == (4, hashlib.sha256("Ah 🦊".encode()).hexdigest())
    assert (end.usage, end.timings) == (TURN.usage, TURN.timings)


@pytest.mark.parametrize("text", ["", "漢" * 50_000, "x" * 100_000])
def test_a_long_answer_is_cut_small_and_always_the_same_way(text: str) -> None:
    frames = stored_frames(stored(assistant_text=text), attempt=7)

    assert frames == stored_frames(stored(assistant_text=text), attempt=7)
    assert max(len(encode_frame(frame)) for frame in frames) <= 32_768
    deltas = [frame.delta for frame in frames if isinstance(frame, ResponseDelta)]
    assert "".join(deltas) == text


def test_a_stopped_turn_ends_cancelled() -> None:
    *_, end = stored_frames(stored(status="cancelled", cancelled_by="user"), attempt=3)

    assert isinstance(end, ResponseCancelled)
    assert (end.by, end.length) == ("user", 4)


def test_a_replay_says_who_stopped_the_turn() -> None:
    *_, end = stored_frames(stored(status="cancelled", cancelled_by="disconnect"), attempt=3)

    assert isinstance(end, ResponseCancelled)
    assert end.by == "disconnect"


def test_a_turn_stored_before_that_was_kept_counts_as_stopped_by_its_user() -> None:
    item = msgspec.json.decode(msgspec.json.encode(stored(status="cancelled")))
    del item["cancelled_by"]

    *_, end = stored_frames(msgspec.convert(item, StoredTurn), attempt=3)

    assert isinstance(end, ResponseCancelled)
    assert end.by == "user"
