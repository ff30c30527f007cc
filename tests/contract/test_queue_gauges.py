"""What is asked of SQS, CloudWatch and ECS for the scaling signals: the emulator's answers, and the vendors' shapes."""

from __future__ import annotations

import json
import uuid
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi, Service
from shared.adapters.ecs_running_tasks import EcsRunningTasks, NoService
from shared.adapters.http_session import HttpSession
from shared.adapters.sqs_queue_gauges import SqsQueueGauges
from shared.clock import SystemClock
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential
from tests.fakes.clock import FakeClock
from tests.fakes.emulator import KEY_ID, REGION, SECRET, Emulator
from tests.fakes.http_calls import FakeHttp

URLS = {
    "burst": "https://sqs.us-east-1.amazonaws.com/1/bc-burst",
    "deferred": "https://sqs.us-east-1.amazonaws.com/1/bc-deferred",
}


def api(service: Service, http: HttpSession, endpoint_url: str = "") -> AwsJsonApi:
    return AwsJsonApi(
        service,
        http=http,
        credentials=AwsCredentials(REGION, fixed=Credential(KEY_ID, SECRET, REGION)),
        clock=SystemClock(),
        endpoint_url=endpoint_url,
        timeout_ms=5_000,
    )


def gauges(sqs: HttpSession, cloudwatch: HttpSession) -> SqsQueueGauges:
    return SqsQueueGauges(
        api("sqs", sqs), api("cloudwatch", cloudwatch), {**URLS, "retry": ""}, FakeClock()
    )


def assert_is_a_request_of(service: str, operation: str, http: FakeHttp) -> dict[str, Any]:
    [call] = http.calls
    model = botocore.session.get_session().get_service_model(service)
    metadata = model.metadata
    assert call.headers["x-amz-target"] == f"{metadata['targetPrefix']}.{operation}"
    assert call.headers["content-type"].endswith(f"-{metadata['jsonVersion']}")
    assert call.origin == f"https://{metadata['endpointPrefix']}.{REGION}.amazonaws.com"
    body: dict[str, Any] = json.loads(call.body)
    shape = model.operation_model(operation).input_shape
    report = ParamValidator().validate(body, shape)
    assert not report.has_errors(), report.generate_report()
    return body


async def test_ages_are_one_request_in_cloudwatchs_shape() -> None:
    http = FakeHttp(
        answers=[
            (
                200,
                b'{"MetricDataResults":[{"Id":"burst","Label":"burst","Values":[4.0,9.0]},'
                b'{"Id":"deferred","Label":"deferred","Values":[]}]}',
            )
        ]
    )

    assert await gauges(FakeHttp(), http).oldest_s() == {"burst": 4.0}

    body = assert_is_a_request_of("cloudwatch", "GetMetricData", http)
    names = [
        query["MetricStat"]["Metric"]["Dimensions"][0]["Value"]
        for query in body["MetricDataQueries"]
    ]
    assert names == ["bc-burst", "bc-deferred"]


async def test_tasks_are_asked_in_ecs_shape() -> None:
    http = FakeHttp(answers=[(200, b'{"services":[{"runningCount":3,"desiredCount":9}]}')])

    tasks = EcsRunningTasks(api("ecs", http), cluster="bc", service="bc-queue-runner")

    assert await tasks.count() == 3
    assert_is_a_request_of("ecs", "DescribeServices", http)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, b'{"services":[],"failures":[{"reason":"MISSING"}]}'), ConfigurationError),
        ((400, b'{"__type":"ClusterNotFoundException"}'), ConfigurationError),
        ((500, b'{"__type":"ServerException"}'), DependencyUnavailable),
    ],
)
async def test_a_service_that_is_not_there_is_told_from_one_that_could_not_be_asked(
    answer: tuple[int, bytes], expected: type[Exception]
) -> None:
    tasks = EcsRunningTasks(api("ecs", FakeHttp(answers=[answer])), cluster="bc", service="none")

    with pytest.raises(expected):
        await tasks.count()


async def test_where_nothing_is_scheduled_there_is_one_process() -> None:
    assert await NoService().count() == 1


async def test_depths_count_what_waits_in_the_emulators_queues(emulator: Emulator) -> None:
    http = HttpSession()
    try:
        url = emulator.make_queue(f"q{uuid.uuid4().hex}")
        for _ in range(3):
            emulator.client("sqs").send_message(QueueUrl=url, MessageBody="x")
        found = SqsQueueGauges(
            api("sqs", http, emulator.url),
            api("cloudwatch", http, emulator.url),
            {"deferred": url},
            SystemClock(),
        )
        assert await found.depths() == {"deferred": 3}
        assert await found.oldest_s() == {}
    finally:
        await http.close()
