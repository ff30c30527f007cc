"""One stack for most end-to-end tests; tests that need other knobs start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.stack import Stack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a single inline slot, so that a second user already overflows."""
    with running_stack(tmp_path_factory.mktemp("stack"), inline_slots=1) as running:
        yield running
