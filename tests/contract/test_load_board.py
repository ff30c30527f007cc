"""What every LoadBoard does, asked of the fake and of Redis."""

from __future__ import annotations

from typing import Any

import pytest

from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_keys import BURST_WAITING, BURST_WAITING_KEPT_MS
from shared.adapters.redis_load_board import SAMPLES, SAMPLES_KEPT_MS, RedisLoadBoard
from shared.contracts.load import LoadSample
from shared.errors import DependencyUnavailable
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.load_board import FakeLoadBoard


class FakeRig:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board: Any = FakeLoadBoard(self.clock)

    async def queue(self, turn: str, at_ms: int) -> None:
        self.board.queued_at_ms[turn] = at_ms

    async def fail(self) -> None:
        self.board.available = False

    async def close(self) -> None: ...


class RedisRig:
    def __init__(self, url: str) -> None:
        self.clock = FakeClock()
        self.client = self._connect(url)
        self.board: Any = RedisLoadBoard(self.client, self.clock)

    def _connect(self, url: str) -> RedisClient:
        return RedisClient(
            url, clock=self.clock, randomness=FakeRandomness(), timeout_ms=500, connections=2
        )

    async def queue(self, turn: str, at_ms: int) -> None:
        await self.client.run_one(("ZADD", BURST_WAITING, at_ms, turn))

    async def fail(self) -> None:
        self.clock = FakeClock(auto=True)  # refused connections are tried again after a pause
        self.board = RedisLoadBoard(self._connect("redis://127.0.0.1:1/0"), self.clock)

    async def close(self) -> None:
        await self.client.aclose()


@pytest.fixture(params=["fake", "redis"])
async def rig(request):
    made = FakeRig() if request.param == "fake" else RedisRig(request.getfixturevalue("valkey_url"))
    yield made
    await made.close()


def sample(worker: str, at_ms: int, running: int = 0) -> LoadSample:
    return LoadSample(
        worker=worker,
        at_ms=at_ms,
        slots=8,
        running=running,
        lag_ms=1.5,
        cpu_share=0.25,
        mean_turn_ms=2_000.0,
    )


async def test_an_empty_board_has_no_load(rig):
    load = await rig.board.read()
    assert (load.samples, load.burst_waiting) == ((), 0)


async def test_every_worker_has_one_sample_its_latest(rig):
    now_ms = rig.clock.now_ms()
    await rig.board.publish(sample("b", now_ms))
    await rig.board.publish(sample("a", now_ms, running=1))
    await rig.board.publish(sample("a", now_ms, running=2))
    load = await rig.board.read()
    assert load.samples == (sample("a", now_ms, running=2), sample("b", now_ms))


async def test_a_silent_worker_is_forgotten_after_some_seconds(rig):
    await rig.board.publish(sample("dead", rig.clock.now_ms()))
    rig.clock.skip(5)
    assert len((await rig.board.read()).samples) == 1
    rig.clock.skip(0.001)
    await rig.board.publish(sample("alive", rig.clock.now_ms()))
    assert [found.worker for found in (await rig.board.read()).samples] == ["alive"]


async def test_turns_that_wait_in_burst_are_counted(rig):
    now_ms = rig.clock.now_ms()
    await rig.queue("t1", now_ms - 3_000)
    await rig.queue("t2", now_ms - 500)
    load = await rig.board.read()
    assert load.burst_waiting == 2


async def test_a_board_that_cannot_be_asked_says_so(rig):
    await rig.fail()
    with pytest.raises(DependencyUnavailable):
        await rig.board.read()
    with pytest.raises(DependencyUnavailable):
        await rig.board.publish(sample("a", 0))


@pytest.mark.parametrize(
    "odd", [b"", b"no json", b"[]", b'{"worker":"x"}', b"\xff", b'{"worker":1,"at_ms":"soon"}']
)
async def test_redis_board_passes_over_a_sample_that_this_version_cannot_read(
    valkey_url, odd, caplog
):
    """As a newer task would write it: nobody may stop for it."""
    rig = RedisRig(valkey_url)
    await rig.board.publish(sample("a", rig.clock.now_ms()))
    await rig.client.run_one(("HSET", SAMPLES, "odd", odd))

    for _ in range(3):
        assert [found.worker for found in (await rig.board.read()).samples] == ["a"]

    assert caplog.messages == ["load.unreadable_samples"]
    await rig.client.run_one(("HDEL", SAMPLES, "odd"))
    await rig.board.read()
    await rig.client.run_one(("HSET", SAMPLES, "odd", odd))
    await rig.board.read()
    assert len(caplog.messages) == 2
    await rig.close()


async def test_redis_board_leaves_nothing_of_dead_workers_behind(valkey_url):
    rig = RedisRig(valkey_url)
    await rig.board.publish(sample("dead", rig.clock.now_ms()))
    rig.clock.skip(SAMPLES_KEPT_MS / 1000 + 1)
    await rig.board.read()
    assert await rig.client.run_one(("EXISTS", SAMPLES)) == 0
    await rig.board.publish(sample("alive", rig.clock.now_ms()))
    assert 0 < await rig.client.run_one(("PTTL", SAMPLES)) <= SAMPLES_KEPT_MS
    await rig.close()


async def test_redis_board_does_not_count_turns_whose_message_has_expired(valkey_url):
    rig = RedisRig(valkey_url)
    await rig.queue("lost", rig.clock.now_ms() - BURST_WAITING_KEPT_MS - 1)
    load = await rig.board.read()
    assert load.burst_waiting == 0
    await rig.close()
