"""A signed request to one AWS endpoint."""

from __future__ import annotations

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_endpoint import AwsEndpoint, regional_url
from shared.errors import ConfigurationError
from shared.policy.sigv4 import Credential, verify
from tests.fakes.clock import FakeClock
from tests.fakes.http_calls import FakeHttp

ROLE = Credential("ASIAROLE", "role-secret", "eu-west-1", "role-token")


def endpoint(http: FakeHttp, url: str) -> AwsEndpoint:
    return AwsEndpoint(
        url,
        setting="BURSTCHAT_SOME_URL",
        service="some",
        http=http,
        credentials=AwsCredentials("eu-west-1", fixed=ROLE),
        clock=FakeClock(),
        timeout_ms=2_000,
    )


async def test_a_request_goes_where_it_is_told_signed_for_the_service() -> None:
    http = FakeHttp(answers=[(418, b"tea")])

    answer = await endpoint(http, "https://some.host:9").send("PUT", "/a%20b", {"x": "1"}, b"{}")

    [call] = http.calls
    assert (answer.status, answer.body) == (418, b"tea")
    assert (call.method, call.origin, call.target) == ("PUT", "https://some.host:9", "/a%20b")
    headers = {**call.headers, "host": "some.host:9"}
    now_ms = FakeClock().now_ms()
    assert verify(ROLE, "PUT", "/a%20b", "", headers, call.body, now_ms, service="some") is None


@pytest.mark.parametrize("url", ["", "host", "ftp://host", "https://"])
def test_an_address_that_is_none_names_its_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_SOME_URL"):
        endpoint(FakeHttp(), url)


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-west-1", "https://sqs.eu-west-1.amazonaws.com"),
        ("cn-north-1", "https://sqs.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_a_service_has_an_address_in_each_region(region: str, url: str) -> None:
    assert regional_url("sqs", region) == url
