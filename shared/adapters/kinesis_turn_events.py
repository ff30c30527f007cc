"""Analytics events to a Kinesis stream: gathered, sent in batches, dropped rather than waited for."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from typing import Final

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.clock import Clock, Randomness
from shared.contracts.turn_events import TurnEndedEvent, encode_event
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.backoff import ceiling_ms
from shared.telemetry import Log, Metrics

BATCH_RECORDS: Final = 500
"""PutRecords' own limit; with some 600 bytes an event such a batch is far below its limit of size."""
TRIES: Final = 5
_FIRST_WAIT_MS: Final = 200
_LONGEST_WAIT_MS: Final = 10_000

_log = Log("turn_events")
_encode = msgspec.json.Encoder().encode


class _Entry(msgspec.Struct, rename="pascal"):
    data: str
    partition_key: str


class _Result(msgspec.Struct, rename="pascal"):
    error_code: str | None = None


class _Answer(msgspec.Struct, rename="pascal"):
    failed_record_count: int = 0
    records: list[_Result] = []


_decode = msgspec.json.Decoder(_Answer).decode


class _Record(msgspec.Struct):
    entry: _Entry
    tries: int = 0


class KinesisTurnEvents:
    """TurnEvents. `run` sends once per `flush_ms`, or as soon as a batch is full; `flush` sends what there is.

    At least once: an answer that got lost makes a second record. Records of one session go to one shard, in order
    unless one of them had to be sent again.
    """

    def __init__(
        self,
        api: AwsJsonApi,
        stream: str,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        buffer_events: int,
        flush_ms: int,
    ) -> None:
        self._api = api
        self._stream = stream
        self._clock = clock
        self._randomness = randomness
        self._metrics = metrics
        self._buffer_events = buffer_events
        self._flush_s = flush_ms / 1000
        self._buffer: deque[_Record] = deque()
        self._dropped = 0
        self._failures = 0
        self._full = asyncio.Event()
        self._sending = asyncio.Lock()

    def note(self, event: TurnEndedEvent) -> None:
        """See TurnEvents."""
        if len(self._buffer) >= self._buffer_events:
            self._dropped += 1
            return
        data = base64.b64encode(encode_event(event)).decode()
        self._buffer.append(_Record(_Entry(data, event.session)))
        if len(self._buffer) >= BATCH_RECORDS:
            self._full.set()

    async def run(self) -> None:
        """Send until cancelled. Raises nothing that Kinesis may answer."""
        while True:
            await self._rest()
            await self.flush()

    async def flush(self) -> None:
        """Send what was noted before this call, each record at most once; what fails stays for the next time."""
        waiting = len(self._buffer)
        while waiting > 0:
            sent = min(waiting, BATCH_RECORDS)
            if not await self._send_batch():
                break
            waiting -= sent
        self._tell_drops()

    def abandon(self) -> None:
        """Count what is left as dropped: the process ends."""
        self._dropped += len(self._buffer)
        self._buffer.clear()
        self._tell_drops()

    async def _rest(self) -> None:
        if self._failures:
            longest_ms = ceiling_ms(_FIRST_WAIT_MS, self._failures, _LONGEST_WAIT_MS)
            await self._clock.sleep(self._randomness.uniform(longest_ms / 2, longest_ms) / 1000)
            return
        sleeper = asyncio.create_task(self._clock.sleep(self._flush_s))
        waker = asyncio.create_task(self._full.wait())
        try:
            await asyncio.wait([sleeper, waker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()

    async def _send_batch(self) -> bool:
        """Send the oldest records. False when Kinesis takes no more for now."""
        async with self._sending:
            batch = [self._buffer.popleft() for _ in range(min(len(self._buffer), BATCH_RECORDS))]
            if len(self._buffer) < BATCH_RECORDS:
                self._full.clear()
            if not batch:
                return True
            try:
                failed = await self._put(batch)
            except DependencyUnavailable as error:
                failed = batch
                self._note_failure(type(error).__name__)
            except (ConfigurationError, AwsRefusal, msgspec.MsgspecError) as error:
                self._dropped += len(batch)
                self._note_failure(type(error).__name__)
                return False
            except asyncio.CancelledError:
                self._buffer.extendleft(reversed(batch))
                raise
            self._keep(failed)
            if not failed:
                self._failures = 0
            return not failed

    async def _put(self, batch: list[_Record]) -> list[_Record]:
        """The records that were refused one by one."""
        body = {"StreamName": self._stream, "Records": [record.entry for record in batch]}
        answer = _decode(await self._api.call("PutRecords", _encode(body)))
        if not answer.failed_record_count:
            return []
        failed = [
            record
            for record, result in zip(batch, answer.records, strict=False)
            if result.error_code is not None
        ]
        codes = {result.error_code for result in answer.records if result.error_code is not None}
        self._note_failure(", ".join(sorted(codes)))
        return failed

    def _keep(self, failed: list[_Record]) -> None:
        """Put refused records back to the front, as far as they have tries left and there is room."""
        for record in reversed(failed):
            record.tries += 1
            if record.tries >= TRIES or len(self._buffer) >= self._buffer_events:
                self._dropped += 1
            else:
                self._buffer.appendleft(record)

    def _note_failure(self, reason: str) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("events.not_sent", error_type=reason)

    def _tell_drops(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._metrics.count("AnalyticsDropped", dropped)
            _log.warning("events.dropped", events=dropped)
