from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from shared.adapters.index_artefact import KnowledgeIndex
from shared.adapters.watched_index import WatchedIndex
from shared.errors import DependencyUnavailable, IncompatibleIndex
from tests.fakes.clock import FakeClock, settle
from tests.fakes.knowledge import small_corpus, small_index

OLD = small_index()
NEW = small_index({n: b for n, b in small_corpus().items() if n != "series/iron-kettle.md"})


class FakeSource:
    """An index that a test exchanges, breaks, or holds back."""

    def __init__(self) -> None:
        self.index: KnowledgeIndex | None = None
        self.version = "1"
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.known: list[str | None] = []

    def fetch(self, known_version: str | None) -> tuple[KnowledgeIndex, str] | None:
        self.known.append(known_version)
        self.entered.set()
        assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        if self.index is None:
            raise DependencyUnavailable("none yet")
        return None if known_version == self.version else (self.index, self.version)


def watch(source: FakeSource, clock: FakeClock | None = None) -> WatchedIndex:
    return WatchedIndex(source, clock or FakeClock(), poll_interval_ms=30_000)


def test_current_says_that_nothing_is_loaded_yet() -> None:
    with pytest.raises(DependencyUnavailable, match="no knowledge index"):
        watch(FakeSource()).current()


async def test_refresh_exchanges_the_index_when_its_version_changes() -> None:
    source = FakeSource()
    source.index = OLD
    watched = watch(source)
    assert await watched.refresh() is True
    assert await watched.refresh() is False
    assert watched.current() is OLD
    source.index, source.version = NEW, "2"
    assert await watched.refresh() is True
    assert watched.current() is NEW
    assert source.known == [None, "1", "1"]


@pytest.mark.parametrize("failure", [DependencyUnavailable("down"), IncompatibleIndex("schema 9")])
async def test_refresh_keeps_the_old_index_on_failure(failure: Exception) -> None:
    source = FakeSource()
    source.index = OLD
    watched = watch(source)
    await watched.refresh()
    source.failure = failure
    with pytest.raises(type(failure)):
        await watched.refresh()
    assert watched.current() is OLD


async def test_current_answers_while_a_slow_refresh_is_under_way() -> None:
    source = FakeSource()
    source.index = OLD
    watched = watch(source)
    await watched.refresh()
    source.gate.clear()
    source.entered.clear()
    source.index, source.version = NEW, "2"
    slow = asyncio.create_task(watched.refresh())
    assert await asyncio.to_thread(source.entered.wait, 10)
    assert watched.current() is OLD
    source.gate.set()
    assert await slow is True
    assert watched.current() is NEW


async def test_run_looks_again_every_interval_and_survives_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    # The thread itself is tested above; here only the rhythm counts.
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    source, clock = FakeSource(), FakeClock()
    watched = watch(source, clock)
    task = asyncio.create_task(watched.run())
    await settle()
    assert len(source.known) == 1
    source.index = OLD
    await clock.advance(29)
    assert len(source.known) == 1
    await clock.advance(1)
    assert len(source.known) == 2
    assert watched.current() is OLD
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
