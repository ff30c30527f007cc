"""Pushing to API Gateway itself: plain AWS calls, signed with the process's AWS credentials."""

from __future__ import annotations

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.management_api_push import ManagementApiPush
from shared.contracts.identifiers import ConnectionId
from shared.contracts.pushes import PushFrame, PushStatus
from shared.errors import ConfigurationError
from shared.policy.sigv4 import Credential
from tests.fakes.clock import FakeClock
from tests.fakes.http_calls import FakeHttp

OURS = Credential("AKIDPUSH", "push-secret", "us-east-1")
ROLE = Credential("ASIAROLE", "role-secret", "us-east-1", "role-token")
ENDPOINT = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"


def frame(connection: str, text: str) -> PushFrame:
    return PushFrame(ConnectionId(connection), text.encode())


def push_with(http: FakeHttp) -> ManagementApiPush:
    aws = AwsCredentials("us-east-1", fixed=ROLE)
    return ManagementApiPush(
        http, OURS, FakeClock(), aws=aws, timeout_ms=2_000, requests_per_endpoint=8
    )


async def test_frames_go_one_by_one_signed_for_the_region_of_the_api() -> None:
    http = FakeHttp()

    statuses = await push_with(http).push(ENDPOINT, [frame("a=", "1"), frame("b", "2")])

    assert list(statuses) == [PushStatus.SENT] * 2
    assert [call.target for call in http.calls] == [
        "/prod/@connections/a%3D",
        "/prod/@connections/b",
    ]
    headers = http.calls[0].headers
    assert "Credential=ASIAROLE/" in headers["authorization"]
    assert "/eu-west-1/execute-api/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "role-token"


@pytest.mark.parametrize(
    ("status", "expected"),
    [(410, PushStatus.GONE), (400, PushStatus.GONE), (429, PushStatus.THROTTLED)],
)
async def test_later_frames_of_a_refused_connection_are_not_sent(
    status: int, expected: PushStatus
) -> None:
    http = FakeHttp(answers=[(status, b"")])

    statuses = await push_with(http).push(ENDPOINT, [frame("a", "1"), frame("a", "2")])

    assert list(statuses) == [expected] * 2
    assert len(http.calls) == 1


async def test_api_gateway_without_aws_credentials_is_a_configuration_error() -> None:
    push = ManagementApiPush(
        FakeHttp(), OURS, FakeClock(), timeout_ms=2_000, requests_per_endpoint=8
    )

    with pytest.raises(ConfigurationError, match="AWS credentials"):
        await push.push(ENDPOINT, [frame("a", "1")])


async def test_our_own_gateway_never_sees_the_aws_credentials() -> None:
    http = FakeHttp()

    await push_with(http).push("http://10.0.0.1:8081", [frame("a", "1")])

    assert "Credential=AKIDPUSH/" in http.calls[0].headers["authorization"]
    assert "x-amz-security-token" not in http.calls[0].headers
