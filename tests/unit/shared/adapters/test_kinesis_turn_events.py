"""Events on their way to Kinesis: in batches, again where refused, dropped where there is no room."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable
from typing import Any

import botocore.session
import msgspec
import pytest
from botocore.validate import validate_parameters

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.kinesis_turn_events import BATCH_RECORDS, TRIES, KinesisTurnEvents
from shared.contracts.turn_events import TurnEndedEvent
from shared.errors import DependencyUnavailable
from shared.policy.sigv4 import Credential
from shared.telemetry import Metrics
from tests.fakes.clock import FakeClock, FakeRandomness, settle
from tests.fakes.http_calls import FakeHttp

EVENT = TurnEndedEvent(
    turn="01JD0000000000000000000000",
    session="a" * 26,
    tenant="acme",
    status="completed",
    ended_by="worker",
    ended_at_ms=1_700_000_000_000,
)


def answer(*codes: str | None) -> tuple[int, bytes]:
    records: list[dict[str, str]] = [
        {"ErrorCode": code, "ErrorMessage": "no"}
        if code
        else {"SequenceNumber": "1", "ShardId": "shardId-0"}
        for code in codes
    ]
    failed = sum(code is not None for code in codes)
    return 200, json.dumps({"FailedRecordCount": failed, "Records": records}).encode()


DONE = answer()
DENIED = (400, b'{"__type":"ResourceNotFoundException","message":"no stream"}')
WRONG = (400, b'{"__type":"ValidationException","message":"wrong"}')
THROTTLED = "ProvisionedThroughputExceededException"


class Rig:
    def __init__(self, *answers: tuple[int, bytes] | Exception, room: int = 10_000) -> None:
        self.clock = FakeClock()
        self.http = FakeHttp(answers=list(answers) or [DONE])
        self.written = io.StringIO()
        self.events = KinesisTurnEvents(
            AwsJsonApi(
                "kinesis",
                http=self.http,
                credentials=AwsCredentials("eu-west-1", fixed=Credential("a", "b", "eu-west-1")),
                clock=self.clock,
                timeout_ms=2_000,
            ),
            "turn-events",
            clock=self.clock,
            randomness=FakeRandomness(),
            metrics=Metrics("test", "gateway", self.clock, self.written),
            buffer_events=room,
            flush_ms=1_000,
        )

    def note(self, number: int = 1) -> None:
        for index in range(number):
            self.events.note(msgspec.structs.replace(EVENT, attempt=index))

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(call.body) for call in self.http.calls]

    def sizes(self) -> list[int]:
        return [len(body["Records"]) for body in self.bodies()]

    def dropped(self) -> float:
        lines = [json.loads(line) for line in self.written.getvalue().splitlines()]
        return sum(line.get("AnalyticsDropped", 0) for line in lines)

    async def running(self, work: Callable[[], Any]) -> None:
        loop = asyncio.create_task(self.events.run())
        try:
            await work()
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)


async def test_events_gather_for_a_second_and_go_in_one_request() -> None:
    rig = Rig()

    async def work() -> None:
        rig.note(3)
        await rig.clock.advance(0.5)
        assert rig.http.calls == []
        await rig.clock.advance(0.6)

    await rig.running(work)
    assert rig.sizes() == [3]


async def test_a_full_batch_goes_at_once() -> None:
    rig = Rig()

    async def work() -> None:
        await settle()
        rig.note(BATCH_RECORDS + 1)
        await settle()

    await rig.running(work)
    assert rig.sizes()[0] == BATCH_RECORDS


async def test_the_request_is_what_the_service_model_describes() -> None:
    rig = Rig()
    rig.note(2)
    await rig.events.flush()

    [call] = rig.http.calls
    model = botocore.session.Session().get_service_model("kinesis")
    operation = model.operation_model("PutRecords")
    body = json.loads(call.body)
    parsed = {**body, "Records": [{**r, "Data": r["Data"].encode()} for r in body["Records"]]}
    validate_parameters(parsed, operation.input_shape)
    target = f"{model.metadata['targetPrefix']}.{operation.name}"
    assert call.headers["x-amz-target"] == target
    assert call.headers["content-type"] == f"application/x-amz-json-{model.metadata['jsonVersion']}"
    assert call.origin == "https://kinesis.eu-west-1.amazonaws.com"
    assert len(body["Records"]) <= operation.input_shape.members["Records"].metadata["max"]
    data = json.loads(base64.b64decode(body["Records"][1]["Data"]))
    assert msgspec.convert(data, TurnEndedEvent) == msgspec.structs.replace(EVENT, attempt=1)
    members = operation.output_shape.members["Records"].member.members
    assert {"ErrorCode", "SequenceNumber"} <= set(members)


async def test_one_session_goes_to_one_shard() -> None:
    rig = Rig()
    rig.note()
    await rig.events.flush()

    assert rig.bodies()[0]["Records"][0]["PartitionKey"] == EVENT.session


async def test_refused_records_are_sent_again_alone_and_first() -> None:
    rig = Rig(answer(None, THROTTLED, None), DONE)
    rig.note(3)
    await rig.events.flush()
    rig.note()
    await rig.events.flush()

    assert rig.sizes() == [3, 2]
    again = json.loads(base64.b64decode(rig.bodies()[1]["Records"][0]["Data"]))
    assert again["attempt"] == 1
    assert rig.dropped() == 0


async def test_a_record_that_is_refused_again_and_again_is_dropped_and_counted() -> None:
    rig = Rig(answer("InternalFailure"))
    rig.note()
    for _ in range(TRIES + 2):
        await rig.events.flush()

    assert len(rig.http.calls) == TRIES
    assert rig.dropped() == 1


async def test_while_kinesis_is_away_events_wait_and_tries_get_rarer() -> None:
    rig = Rig(*[DependencyUnavailable("away")] * 3, DONE)

    async def work() -> None:
        rig.note(2)
        await rig.clock.advance(1.1)
        assert len(rig.http.calls) == 1
        await rig.clock.advance(10)

    await rig.running(work)
    assert rig.sizes() == [2, 2, 2, 2]
    assert rig.dropped() == 0


async def test_what_finds_no_room_is_dropped_and_counted_and_nobody_waits() -> None:
    rig = Rig(DependencyUnavailable("away"), DONE, room=5)
    rig.note(8)
    await rig.events.flush()
    assert rig.dropped() == 3
    rig.note(1)
    await rig.events.flush()

    assert rig.sizes() == [5, 5]
    assert rig.dropped() == 4


async def test_a_failed_batch_gives_way_to_what_came_meanwhile() -> None:
    rig = Rig(room=2)

    async def fill(*args: Any, **kwargs: Any) -> Any:
        rig.note(2)
        raise DependencyUnavailable("away")

    rig.http.send = fill  # type: ignore[method-assign]
    rig.note(2)
    await rig.events.flush()

    assert rig.dropped() == 2
    assert len(rig.events._buffer) == 2


@pytest.mark.parametrize("refusal", [DENIED, WRONG, (200, b"not json")])
async def test_what_can_never_be_sent_does_not_pile_up(refusal: tuple[int, bytes]) -> None:
    rig = Rig(refusal)
    rig.note(3)
    await rig.events.flush()
    await rig.events.flush()

    assert len(rig.http.calls) == 1
    assert rig.dropped() == 3


async def test_a_flush_sends_everything_in_as_many_requests_as_it_takes() -> None:
    rig = Rig()
    rig.note(BATCH_RECORDS * 2 + 7)
    await rig.events.flush()

    assert rig.sizes() == [BATCH_RECORDS, BATCH_RECORDS, 7]


async def test_a_flush_that_is_cut_loses_nothing() -> None:
    rig = Rig()

    class Hanging(FakeHttp):
        async def send(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    working, rig.events._api._http = rig.http, Hanging()
    rig.note(3)
    flushing = asyncio.create_task(rig.events.flush())
    await settle()
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    rig.events._api._http = working
    await rig.events.flush()

    assert rig.sizes() == [3]


async def test_two_flushes_at_once_send_each_event_once() -> None:
    rig = Rig()
    rig.note(4)
    await asyncio.gather(rig.events.flush(), rig.events.flush())

    assert rig.sizes() == [4]


async def test_what_is_left_at_the_end_is_counted() -> None:
    rig = Rig()
    rig.note(4)
    rig.events.abandon()

    assert rig.dropped() == 4
    await rig.events.flush()
    assert rig.http.calls == []


async def test_without_events_nothing_is_sent() -> None:
    rig = Rig()

    async def work() -> None:
        await rig.clock.advance(5)

    await rig.running(work)
    assert rig.http.calls == []
