"""Ended turns in a stream of an AWS emulator, through the process's own wiring."""

from __future__ import annotations

import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from shared.bootstrap.adapters import ProcessAdapters
from shared.bootstrap.analytics import open_analytics
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import SessionId, SessionRef, TenantId, TurnId, TurnRef, UserId
from shared.settings import AnalyticsSettings, Settings
from tests.fakes.emulator import KEY_ID, REGION, SECRET, Emulator, emulator

__all__ = ["emulator"]
REF = TurnRef(
    SessionRef(TenantId("acme"), UserId("ana"), SessionId("s1")),
    TurnId("s1.01JD0000000000000000000000"),
)


@pytest.fixture
def stream(emulator: Emulator) -> str:
    name = f"events-{uuid.uuid4().hex[:8]}"
    kinesis = emulator.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return name


def read(emulator: Emulator, stream: str) -> list[dict[str, object]]:
    kinesis = emulator.client("kinesis")
    [shard] = kinesis.describe_stream(StreamName=stream)["StreamDescription"]["Shards"]
    iterator = kinesis.get_shard_iterator(
        StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = kinesis.get_records(ShardIterator=iterator)["Records"]
    return [json.loads(record["Data"]) for record in records]


def settings(emulator: Emulator, stream: str) -> Settings:
    made = Settings()
    return replace(
        made,
        aws=replace(made.aws, aws_endpoint_url=emulator.url, aws_region=REGION),
        redis=replace(made.redis, redis_url="redis://127.0.0.1:1/0"),
        analytics=AnalyticsSettings(analytics_stream=stream, analytics_flush_ms=60_000),
    )


async def test_events_are_in_the_stream_when_the_process_has_stopped(
    emulator: Emulator, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    clock, randomness = SystemClock(), SystemRandomness()
    made = settings(emulator, stream)
    async with AsyncExitStack() as closing:
        adapters = ProcessAdapters(made, clock, randomness, closing)
        analytics = open_analytics(made, "gateway", adapters, clock, randomness, closing)
        analytics.ended.unclaimed(REF, "cancelled", by="gateway", now_ms=5, code="user")
        await analytics.flush()
        assert [event["code"] for event in read(emulator, stream)] == ["user"]
        analytics.ended.unclaimed(REF, "rejected", by="gateway", now_ms=6, code="overloaded")

    events = read(emulator, stream)
    assert [event["status"] for event in events] == ["cancelled", "rejected"]
    assert "user" not in events[0] or events[0]["user"] == ""
