"""What every kind of test shares: one running stack, and skipped tests that are loud, and fail where CI is true."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from tests.harness.stack import Stack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a single inline slot, so that a second user already overflows; it looks for a new index often."""
    with running_stack(
        tmp_path_factory.mktemp("stack"),
        inline_slots=1,
        index_poll_ms=500,
        # However busy this machine is, a free slot is used.
        lag_high_ms=5_000,
        cpu_high_share="1.0",
    ) as running:
        yield running


@pytest.fixture(scope="session")
def stack_url(stack: Stack) -> str:
    """The address of the running stack's page."""
    return stack.http_url


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.CallInfo[None], None]:
    """In CI a test that cannot run has failed: nothing may pass because it was left out."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} could not run here: {report.longrepr}"
