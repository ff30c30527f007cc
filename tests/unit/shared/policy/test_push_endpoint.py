"""Endpoints of the Management API: read, and refused by name when they cannot work."""

from __future__ import annotations

import pytest

from shared.errors import ConfigurationError
from shared.policy.push_endpoint import PushEndpoint, parse_push_endpoint


def test_a_task_address_is_our_gateway() -> None:
    endpoint = parse_push_endpoint("http://10.0.3.7:8081")

    assert endpoint == PushEndpoint("http", "10.0.3.7:8081", "", False, None)
    assert endpoint.batch_path == "/@connections"


def test_api_gateway_is_known_by_its_scheme_and_region_by_its_host() -> None:
    endpoint = parse_push_endpoint("https://abc.execute-api.eu-west-1.amazonaws.com/prod/")

    assert endpoint.is_api_gateway
    assert endpoint.region == "eu-west-1"
    assert endpoint.connection_path("a/b=") == "/prod/@connections/a%2Fb%3D"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://Gateway.local:80", "gateway.local"),
        ("https://chat.example.com:443/live", "chat.example.com"),
        ("http://[fd00::7]:8081", "[fd00::7]:8081"),
        ("https://vpce-1.execute-api.cn-north-1.amazonaws.com.cn/prod", None),
    ],
)
def test_the_host_is_written_as_clients_send_it(text: str, host: str | None) -> None:
    endpoint = parse_push_endpoint(text)

    assert endpoint.host == (host or endpoint.host)
    assert endpoint.origin == f"{endpoint.scheme}://{endpoint.host}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("wss://abc.execute-api.us-east-1.amazonaws.com/prod", "sockets"),
        ("ws://10.0.0.1:8080", "sockets"),
        ("ftp://10.0.0.1", "scheme"),
        ("10.0.0.1:8081", "scheme"),
        ("http://", "scheme"),
        ("", "scheme"),
        ("http://host:port", "not a URL"),
        ("http://[::1", "not a URL"),
        ("http://host/?x=1", "query"),
        ("http://user@host/", "user"),
        ("https://abc.execute-api.us-east-1.amazonaws.com", "stage"),
        ("http://abc.execute-api.us-east-1.amazonaws.com/prod", "https"),
        ("https://chat.example.com/prod/prod", "twice"),
        ("https://chat.example.com/prod/@connections", "before /@connections"),
    ],
)
@pytest.mark.case("B-36")
def test_an_endpoint_that_cannot_work_names_the_setting_and_the_fault(
    text: str, fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^BURSTCHAT_PRIVATE_ENDPOINT: .*{fault}"):
        parse_push_endpoint(text)
