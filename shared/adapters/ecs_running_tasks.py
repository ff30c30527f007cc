"""RunningTasks over ECS."""

from __future__ import annotations

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi
from shared.errors import ConfigurationError


class _Service(msgspec.Struct):
    running_count: int = msgspec.field(name="runningCount", default=0)


class _Answer(msgspec.Struct):
    services: list[_Service] = []


class EcsRunningTasks:
    """One service of one cluster; `DescribeServices`."""

    def __init__(self, api: AwsJsonApi, *, cluster: str, service: str) -> None:
        self._api = api
        self._cluster = cluster
        self._service = service

    async def count(self) -> int:
        """See RunningTasks."""
        request = {"cluster": self._cluster, "services": [self._service]}
        body = await self._api.call("DescribeServices", msgspec.json.encode(request))
        services = msgspec.json.decode(body, type=_Answer).services
        if not services:
            raise ConfigurationError(
                f"BURSTCHAT_QUEUE_RUNNER_SERVICE: there is no service {self._service!r} "
                f"in the cluster {self._cluster!r}."
            )
        return services[0].running_count


class NoService:
    """RunningTasks where no scheduler runs the tasks: one process, which nobody scales."""

    async def count(self) -> int:
        """See RunningTasks."""
        return 1
