"""The fleet's counters in Redis: one hash of samples, and what the ledger keeps of the burst queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from shared.adapters.redis_client import RedisClient, answered
from shared.adapters.redis_keys import BURST_ENTERED, BURST_WAITING, BURST_WAITING_KEPT_MS
from shared.adapters.redis_scripts import Call
from shared.clock import Clock
from shared.contracts.load import FleetLoad, LoadSample
from shared.telemetry import Log

SAMPLES: Final = "bc:load"
"""Hash: worker → its latest sample as JSON; the whole hash lives for SAMPLES_KEPT_MS after the last publication."""
SAMPLES_KEPT_MS: Final = 60_000
LOST_TURNS: Final = 3
"""So many of the oldest may be lost messages; the next one's age counts."""

_log = Log("load_board")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LoadSample).decode


class RedisLoadBoard:
    """LoadBoard over plain commands, one round trip each."""

    def __init__(self, client: RedisClient, clock: Clock, *, sample_ttl_ms: int = 5_000) -> None:
        """`sample_ttl_ms` after its own `at_ms` a worker's sample no longer counts."""
        self._client = client
        self._clock = clock
        self._sample_ttl_ms = sample_ttl_ms
        self._unreadable = 0  # at the last reading: told once, not every second

    async def publish(self, sample: LoadSample) -> None:
        """See LoadBoard."""
        calls: list[Call] = [
            ("HSET", SAMPLES, sample.worker, _encode(sample)),
            ("PEXPIRE", SAMPLES, SAMPLES_KEPT_MS),
        ]
        for reply in await self._client.run(calls, repeatable=True):
            answered(reply)

    async def read(self) -> FleetLoad:
        """See LoadBoard. Removes the samples of workers that have been silent for long, passes over unreadable ones."""
        now_ms = self._clock.now_ms()
        since_ms = now_ms - BURST_WAITING_KEPT_MS
        calls: list[Call] = [
            ("HVALS", SAMPLES),
            ("ZCOUNT", BURST_WAITING, since_ms, "+inf"),
            ("GET", BURST_ENTERED),
            (
                *("ZRANGE", BURST_WAITING, since_ms, "+inf", "BYSCORE"),
                *("LIMIT", LOST_TURNS, 1, "WITHSCORES"),
            ),
        ]
        replies = await self._client.run(calls, repeatable=True)
        values, waiting, entered, oldest = (answered(reply) for reply in replies)
        samples = self._samples(values)
        await self._forget(
            [sample for sample in samples if now_ms - sample.at_ms > SAMPLES_KEPT_MS]
        )
        live = [sample for sample in samples if now_ms - sample.at_ms <= self._sample_ttl_ms]
        return FleetLoad(
            samples=tuple(sorted(live, key=lambda sample: sample.worker)),
            burst_waiting=waiting,
            burst_entered=int(entered or 0),
            burst_oldest_ms=max(0, now_ms - int(oldest[1])) if oldest else 0,
        )

    def _samples(self, values: Sequence[bytes]) -> list[LoadSample]:
        """What can be read. A sample that cannot, as another version's, is nobody's reason to stop."""
        samples = []
        for value in values:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                samples.append(_decode(value))
        unreadable = len(values) - len(samples)
        if unreadable > self._unreadable:
            _log.warning("load.unreadable_samples", samples=unreadable)
        self._unreadable = unreadable
        return samples

    async def _forget(self, silent: Sequence[LoadSample]) -> None:
        if silent:
            # A worker that speaks again this very moment is missing until its next sample.
            call: Call = ("HDEL", SAMPLES, *(sample.worker for sample in silent))
            await self._client.run_one(call, repeatable=True)
