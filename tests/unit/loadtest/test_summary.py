"""The summary says who answered and whether every turn ended whole."""

from __future__ import annotations

import pytest

from clients.reducer import Turn
from loadtest.observed_turn import ObservedTurn
from loadtest.shape import Burst
from loadtest.summary import faults_of, percentile, summarise, verdict


def ended(path: str, first_token_ms: int, *faults: str) -> ObservedTurn:
    """A completed turn."""
    turn = ObservedTurn(
        message_id="m", sent_at_ms=0, path=path, first_token_ms=first_token_ms, faults=list(faults)
    )
    turn.state = Turn(status="completed")
    turn._terminals = 1
    return turn


def test_summary_counts_by_path_and_says_whole() -> None:
    turns = [ended("inline", 300), ended("burst", 900), ended("burst", 1_100)]
    table = summarise(turns, 40)
    assert "inline (ECS)" in table
    assert "burst (Lambda)" in table
    assert (
        "3 turns in 40 s, 2 of them overflowed to Lambda; every accepted turn ended whole." in table
    )


@pytest.mark.case("B-40")
def test_fault_and_lost_turns_are_counted() -> None:
    lost = ObservedTurn(message_id="m", sent_at_ms=0)
    turns = [ended("inline", 1, "frame repeated", "frame repeated"), lost]
    assert faults_of(turns) == {"frame repeated": 1, "ended lost": 1}
    assert "2 faults" in verdict(turns, 1)
    assert "nothing overflowed" in verdict(turns, 1)


def test_percentile_of_few_values() -> None:
    assert percentile([], 0.5) is None
    assert percentile([7], 0.99) == 7
    assert percentile(list(range(101)), 0.95) == 95


def test_burst_climbs_tenfold_within_its_ramp_and_ends() -> None:
    burst = Burst(baseline_users=4, factor=10, baseline_s=10, ramp_s=10, hold_s=20)
    assert [burst.users_at(at_s) for at_s in (0, 9.9, 15, 20, 39.9)] == [4, 4, 22, 40, 40]
    assert burst.users_at(40) is None
