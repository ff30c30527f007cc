"""The short run: every kind of fault once, under fewer users; `python -m tests.chaos` is the long one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.abandoned import leave_turns_alone
from tests.chaos.faults import KINDS
from tests.chaos.readying import FLEET, limit_retries, warm_workers
from tests.chaos.report import Results, table
from tests.chaos.storm import Storm, run_storm
from tests.harness.stack import Stack, running_stack

WORKERS = 4
"""Two of the burst trigger, two of the retry trigger: the least that both can have."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two gateways and two orchestrators."""
    folder: Path = tmp_path_factory.mktemp("fleet")
    with running_stack(folder, **FLEET) as stack:
        limit_retries(stack, 2)
        yield stack


@pytest.mark.timeout(300)
async def test_every_accepted_turn_ends_once_and_whole_under_every_kind_of_fault(fleet: Stack):
    await warm_workers(fleet, WORKERS)
    lines: list[str] = []
    result = await run_storm(fleet, Storm(users=16, rounds=1, every_s=2.5), lines.append)
    report = "\n".join((*lines, table(Results(storm=result))))
    assert not result.audit.faults, report
    assert dict(result.faults) == dict.fromkeys(KINDS, 1), report
    assert result.audit.ends["completed"] > 0, report


@pytest.mark.timeout(200)
async def test_turns_end_without_readers_after_gateways_and_orchestrators_died(fleet: Stack):
    abandoned = await leave_turns_alone(fleet, seed=1)
    assert not abandoned.unended, abandoned
