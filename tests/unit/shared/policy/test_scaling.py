"""What a backlog asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.scaling import backlog_per_task, tasks_at_target

COUNTS = st.integers(0, 10_000)


def test_fifty_messages_for_five_tasks_ask_for_ten_at_a_target_of_five() -> None:
    assert tasks_at_target(depth=50, tasks=5, target=5) == 10


@pytest.mark.parametrize(
    ("depth", "tasks", "expected"), [(0, 0, 0), (9, 0, 9), (9, 1, 9), (9, 2, 4.5), (0, 4, 0)]
)
def test_the_backlog_of_a_task(depth: int, tasks: int, expected: float) -> None:
    assert backlog_per_task(depth, tasks) == expected


def test_target_tracking_never_leaves_zero_by_itself() -> None:
    assert tasks_at_target(depth=1_000, tasks=0, target=5) == 0


@given(depth=COUNTS, tasks=st.integers(1, 500), target=st.integers(1, 50))
def test_the_tasks_asked_for_bring_the_backlog_to_its_target_or_below(
    depth: int, tasks: int, target: int
) -> None:
    wanted = tasks_at_target(depth, tasks, target)

    assert wanted * target >= depth
    assert (wanted - 1) * target < max(depth, 1)
