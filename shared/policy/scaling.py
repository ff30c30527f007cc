"""How many tasks a backlog asks for: what the scaling policies of `infra/templates/scaling.yaml` do, as numbers."""

from __future__ import annotations

from math import ceil


def backlog_per_task(depth: int, tasks: int) -> float:
    """Waiting messages for each running task; without a task all of them are one's, so that none can start one."""
    return depth / max(tasks, 1)


def tasks_at_target(depth: int, tasks: int, target: float) -> int:
    """The tasks that target tracking asks for: those with which the backlog per task is `target`, rounded up.

    Target tracking multiplies the running tasks, so it never leaves zero by itself.
    """
    return ceil(depth / target) if tasks else 0
