"""What an AWS answer means to the caller."""

from __future__ import annotations

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential, verify
from tests.fakes.clock import FakeClock
from tests.fakes.http_calls import FakeHttp

ROLE = Credential("ASIAROLE", "role-secret", "eu-west-1", "role-token")


def api(http: FakeHttp, **options: str) -> AwsJsonApi:
    credentials = AwsCredentials("eu-west-1", fixed=ROLE)
    return AwsJsonApi(
        "dynamodb",
        http=http,
        credentials=credentials,
        clock=FakeClock(),
        timeout_ms=2_000,
        **options,
    )


async def test_a_call_is_one_signed_post_to_the_regions_service() -> None:
    http = FakeHttp(answers=[(200, b'{"ok":1}')])

    assert await api(http).call("GetItem", b"{}") == b'{"ok":1}'

    [call] = http.calls
    host = "dynamodb.eu-west-1.amazonaws.com"
    assert (call.method, call.origin, call.target) == ("POST", f"https://{host}", "/")
    assert call.headers["x-amz-target"] == "DynamoDB_20120810.GetItem"
    headers = {**call.headers, "host": host}
    now_ms = FakeClock().now_ms()
    assert verify(ROLE, "POST", "/", "", headers, call.body, now_ms, service="dynamodb") is None


async def test_an_emulator_is_an_ordinary_endpoint() -> None:
    http = FakeHttp()

    await api(http, endpoint_url="http://127.0.0.1:4566").call("GetItem", b"{}")

    assert http.calls[0].origin == "http://127.0.0.1:4566"


def test_an_endpoint_that_is_no_address_names_the_setting() -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_AWS_ENDPOINT_URL"):
        api(FakeHttp(), endpoint_url="localhost:4566")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
         DependencyUnavailable),
        (400, "ThrottlingException", DependencyUnavailable),
        (400, "ExpiredTokenException", DependencyUnavailable),
        (500, "InternalServerError", DependencyUnavailable),
        (503, "", DependencyUnavailable),
        (429, "Whatever", DependencyUnavailable),
        (400, "AccessDeniedException", ConfigurationError),
        (400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", ConfigurationError),
        (400, "com.amazonaws.sqs#QueueDoesNotExist", ConfigurationError),
        (400, "UnrecognizedClientException", ConfigurationError),
        (400, "com.amazon.coral.validate#ValidationException", AwsRefusal),
        (400, "ConditionalCheckFailedException", AwsRefusal),
    ],
)  # fmt: skip
async def test_faults_say_what_to_do_next(
    status: int, code: str, expected: type[Exception]
) -> None:
    http = FakeHttp(answers=[(status, b'{"__type":"%s","secret":"text"}' % code.encode())])

    with pytest.raises(expected) as caught:
        await api(http).call("PutItem", b"{}")

    assert type(caught.value) is expected
    assert "text" not in str(caught.value)


async def test_an_answer_that_is_no_json_is_unavailable() -> None:
    with pytest.raises(DependencyUnavailable):
        await api(FakeHttp(answers=[(400, b"<html>")])).call("PutItem", b"{}")


async def test_expired_keys_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[bool] = []
    credentials = AwsCredentials("eu-west-1", fixed=ROLE)
    monkeypatch.setattr(credentials, "forget", lambda: forgotten.append(True))
    http = FakeHttp(answers=[(400, b'{"__type":"ExpiredTokenException"}')])
    expired = AwsJsonApi(
        "sqs", http=http, credentials=credentials, clock=FakeClock(), timeout_ms=2_000
    )

    with pytest.raises(DependencyUnavailable):
        await expired.call("SendMessage", b"{}")

    assert forgotten == [True]
