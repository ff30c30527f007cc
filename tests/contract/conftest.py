"""Real services for the suites that also run against fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.policy.sigv4 import Credential
from tests.fakes.emulator import KEY_ID, REGION, SECRET, emulator
from tests.fakes.ledger_fixtures import valkey_server, valkey_world, world

__all__ = ["emulator", "valkey_server", "valkey_world", "world"]


@pytest.fixture
async def http() -> AsyncIterator[HttpSession]:
    """An HTTP session that leaves no connection open."""
    session = HttpSession()
    yield session
    await session.close()


@pytest.fixture
def emulator_credentials() -> AwsCredentials:
    """What the emulator accepts, without a look at this machine's own credentials."""
    return AwsCredentials(REGION, fixed=Credential(KEY_ID, SECRET, REGION))
