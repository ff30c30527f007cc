"""The load test sees what a user would complain about, so that a planted fault turns it red."""

from __future__ import annotations

import hashlib

import pytest

from loadtest.observed_turn import ObservedTurn
from shared.contracts.server_frames import AnyServerFrame, decode_server_frame

TEXT = "Hello you"


def frames() -> list[AnyServerFrame]:
    """A whole turn: accepted, started, two deltas, completed."""
    end = (
        '{"type":"chat.response.completed","turn_id":"t","attempt":1,"seq":3,"stop_reason":"end_turn",'
        f'"length":{len(TEXT)},"sha256":"{hashlib.sha256(TEXT.encode()).hexdigest()}",'
        '"usage":{},"timings":{"queued_ms":0,"first_token_ms":1,"total_ms":2},"sources":[]}'
    )
    delta = '{"type":"chat.response.delta","turn_id":"t","attempt":1,'
    raws = [
        '{"type":"chat.accepted","message_id":"m","turn_id":"t","path":"burst","duplicate":false}',
        '{"type":"chat.response.started","turn_id":"t","attempt":1,"seq":0,"path":"burst","intent":"x","model":"y"}',
        delta + '"seq":1,"delta":"Hello "}',
        delta + '"seq":2,"delta":"you"}',
        end,
    ]
    return [decode_server_frame(raw) for raw in raws]


def observe(order: list[int]) -> ObservedTurn:
    """A turn that saw these frames, 100 ms apart."""
    turn = ObservedTurn(message_id="m", sent_at_ms=1_000)
    whole = frames()
    for step, index in enumerate(order):
        turn.observe(whole[index], 1_100 + 100 * step)
    return turn


def test_whole_turn_has_no_faults_and_its_times() -> None:
    turn = observe([0, 1, 2, 3, 4])
    assert (turn.outcome, turn.faults, turn.path) == ("completed", [], "burst")
    assert (turn.first_token_ms, turn.longest_gap_ms, turn.total_ms) == (300, 100, 500)


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ([0, 1, 2, 2, 3, 4], "frame repeated"),
        ([0, 1, 3, 2, 4], "frames out of order"),
        ([0, 1, 2, 3, 4, 4], "frame after the end"),
    ],
)
@pytest.mark.case("B-40")
def test_each_fault_is_named(order: list[int], fault: str) -> None:
    assert fault in observe(order).faults


@pytest.mark.case("B-40")
def test_missing_end_is_a_lost_turn() -> None:
    turn = observe([0, 1, 2, 3])
    assert (turn.is_ended, turn.outcome) == (False, "lost")


def test_rejection_ends_the_turn_with_its_code() -> None:
    turn = ObservedTurn(message_id="m", sent_at_ms=0)
    turn.observe(
        decode_server_frame(
            '{"type":"chat.rejected","message_id":"m","code":"busy","message":"x"}'
        ),
        5,
    )
    assert (turn.is_ended, turn.outcome, turn.total_ms) == (True, "rejected busy", 5)
