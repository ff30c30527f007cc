from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.chat_server import FakeChatServer


@pytest.fixture
async def server() -> AsyncIterator[FakeChatServer]:
    fake = FakeChatServer(pace_s=0)
    await fake.start()
    yield fake
    await fake.stop()
