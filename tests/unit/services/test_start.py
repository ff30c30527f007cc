from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from services.start import start_process
from shared.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _own_logging_and_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("BURSTCHAT_")]:
        monkeypatch.delenv(name)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_start_reads_settings_begins_to_log_and_takes_over_the_signals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BURSTCHAT_KNOWLEDGE_BUCKET", "documents")
    monkeypatch.setenv("BURSTCHAT_KNOWLEDGE_BUCKETS", "misspelt")
    start = start_process("knowledge_refresh")
    assert start.settings.aws.knowledge_bucket == "documents"
    assert "setting.unknown" in capsys.readouterr().out
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await start.signals.drain_asked.wait()


async def test_settings_that_cannot_be_used_are_said_before_anything_is_begun() -> None:
    handlers = logging.getLogger().handlers[:]
    with pytest.raises(ConfigurationError, match="BURSTCHAT_"):
        start_process("gateway")
    assert logging.getLogger().handlers == handlers
