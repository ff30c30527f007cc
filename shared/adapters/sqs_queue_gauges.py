"""QueueGauges over SQS (depths) and CloudWatch (ages, which SQS tells nobody else)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi
from shared.clock import Clock
from shared.contracts.turns import QueueName

_AGE_PERIOD_S: Final = 60
_AGE_LOOKBACK_S: Final = 300
"""SQS publishes once a minute and up to a few late; it publishes nothing for a queue that has been idle for hours."""


class _Attributes(msgspec.Struct, frozen=True, rename="pascal"):
    approximate_number_of_messages: str = "0"


class _Depth(msgspec.Struct, rename="pascal"):
    attributes: _Attributes = _Attributes()


class _Series(msgspec.Struct, rename="pascal"):
    label: str = ""
    values: list[float] = []


class _Ages(msgspec.Struct, rename="pascal"):
    metric_data_results: list[_Series] = []


class SqsQueueGauges:
    """Every queue with an address; one request for each depth, one for all ages."""

    def __init__(
        self, sqs: AwsJsonApi, cloudwatch: AwsJsonApi, urls: Mapping[QueueName, str], clock: Clock
    ) -> None:
        self._sqs = sqs
        self._cloudwatch = cloudwatch
        self._urls = {name: url for name, url in urls.items() if url}
        self._clock = clock

    async def depths(self) -> Mapping[QueueName, int]:
        """See QueueGauges."""
        found = await asyncio.gather(*(self._depth(url) for url in self._urls.values()))
        return dict(zip(self._urls, found, strict=True))

    async def _depth(self, url: str) -> int:
        request = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
        body = await self._sqs.call("GetQueueAttributes", msgspec.json.encode(request))
        attributes = msgspec.json.decode(body, type=_Depth).attributes
        return int(attributes.approximate_number_of_messages)

    async def oldest_s(self) -> Mapping[QueueName, float]:
        """See QueueGauges."""
        now_s = self._clock.now_ms() // 1_000
        request = {
            "StartTime": now_s - _AGE_LOOKBACK_S,
            "EndTime": now_s,
            "ScanBy": "TimestampDescending",
            "MetricDataQueries": [
                {"Id": name, "Label": name, "MetricStat": _age_of(url)}
                for name, url in self._urls.items()
            ],
        }
        body = await self._cloudwatch.call("GetMetricData", msgspec.json.encode(request))
        series = msgspec.json.decode(body, type=_Ages).metric_data_results
        newest = {each.label: each.values[0] for each in series if each.values}
        return {name: newest[name] for name in self._urls if name in newest}


def _age_of(queue_url: str) -> dict[str, object]:
    queue_name = urlsplit(queue_url).path.rpartition("/")[2]
    return {
        "Metric": {
            "Namespace": "AWS/SQS",
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": [{"Name": "QueueName", "Value": queue_name}],
        },
        "Period": _AGE_PERIOD_S,
        "Stat": "Maximum",
    }
