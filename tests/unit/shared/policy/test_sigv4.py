"""Signature Version 4: what we sign AWS's own signer would sign, and what unmodified AWS SDKs send we accept."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from shared.clock import SystemClock
from shared.policy.sigv4 import Credential, SignatureFault, sign, verify

CREDENTIAL = Credential("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1")
AT_MS = 1_790_000_123_456
HOST = "10.0.0.7:8081"


@pytest.fixture
def frozen_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime.datetime.fromtimestamp(AT_MS // 1000, tz=datetime.UTC).replace(tzinfo=None)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: at)


def botocore_signature(
    credential: Credential,
    service: str,
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
) -> str:
    keys = Credentials(
        credential.access_key_id, credential.secret_access_key, credential.session_token
    )
    request = AWSRequest(method=method, url=url, headers=headers, data=body)
    botocore.auth.SigV4Auth(keys, service, credential.region).add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.usefixtures("frozen_botocore")
@pytest.mark.parametrize("token", [None, "FwoGZXIvYXdzEBYaD+token/with=signs"])
@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "body"),
    [
        ("POST", "/prod/@connections/L0SM9cOFvHcCIhw%3D", "", {}, b"{}"),
        ("GET", "/@connections/a%2Fb%20c", "", {}, b""),
        ("POST", "/@connections", "", {"content-type": "application/x-ndjson"}, b'{"a":1}\n'),
        ("POST", "/", "", {"x-amz-target": "DynamoDB_20120810.PutItem"}, b"{}"),
        ("GET", "", "", {}, b""),
        ("GET", "/a//b/./c/../d/", "b=2&a=1&a=0&c", {"x-note": "  two   blanks "}, b""),
        ("DELETE", "/%C3%BC~._-/", "x=%20", {}, "ü".encode()),
    ],
)
def test_sign_gives_the_header_of_the_aws_signer(
    token: str | None, method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    credential = Credential("AKID", "secret", "us-east-1", token)
    url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
    expected = botocore_signature(credential, "execute-api", method, url, headers, body)

    added = sign(credential, method, HOST, path, query, headers, body, AT_MS)

    assert added["authorization"] == expected
    assert added.get("x-amz-security-token") == token


@pytest.mark.usefixtures("frozen_botocore")
def test_sign_names_another_service_when_asked() -> None:
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "AmazonSQS.SendMessage",
    }
    url = "https://sqs.eu-west-1.amazonaws.com/"
    expected = botocore_signature(CREDENTIAL, "sqs", "POST", url, headers, b"{}")

    added = sign(
        CREDENTIAL,
        "POST",
        "sqs.eu-west-1.amazonaws.com",
        "/",
        "",
        headers,
        b"{}",
        AT_MS,
        service="sqs",
    )

    assert added["authorization"] == expected


def sent_by_boto3(
    operation: str, token: str | None = None, endpoint: str = f"http://{HOST}/prod", **params: Any
) -> tuple[str, str, dict[str, str], bytes]:
    """Method, raw path, headers and body as an unmodified boto3 client puts them on the wire."""
    client = boto3.client(
        "apigatewaymanagementapi",
        endpoint_url=endpoint,
        region_name=CREDENTIAL.region,
        aws_access_key_id=CREDENTIAL.access_key_id,
        aws_secret_access_key=CREDENTIAL.secret_access_key,
        aws_session_token=token,
        config=Config(retries={"total_max_attempts": 1}),
    )
    seen: list[Any] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        seen.append(request)
        return AWSResponse(request.url, 200, {}, _EmptyBody())

    client.meta.events.register("before-send", answer)
    getattr(client, operation)(**params)
    request = seen[0]
    headers = {
        name.lower(): value.decode() if isinstance(value, bytes) else str(value)
        for name, value in request.headers.items()
    }
    url = urlsplit(request.url)
    headers.setdefault("host", url.netloc)
    body = request.body or b""
    return request.method, url.path, headers, body


class _EmptyBody:
    def stream(self) -> Iterator[bytes]:
        yield b""


@pytest.mark.parametrize("token", [None, "temporary-token"])
@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("post_to_connection", {"ConnectionId": "L0SM9cOFvHcCIhw=", "Data": b'{"t":"\xc3\xbc"}'}),
        ("get_connection", {"ConnectionId": "a/b c+d="}),
        ("delete_connection", {"ConnectionId": "plain"}),
    ],
)
@pytest.mark.parametrize("endpoint", [f"http://{HOST}", f"http://{HOST}/prod"])
def test_verify_accepts_an_unmodified_boto3_client(
    endpoint: str, operation: str, params: dict[str, Any], token: str | None
) -> None:
    method, path, headers, body = sent_by_boto3(operation, token, endpoint, **params)

    fault = verify(CREDENTIAL, method, path, "", headers, body, SystemClock().now_ms())

    assert fault is None


def signed(
    *, path: str = "/@connections/abc", body: bytes = b"hello", at_ms: int = AT_MS, **headers: str
) -> dict[str, str]:
    added = sign(CREDENTIAL, "POST", HOST, path, "", headers, body, at_ms)
    return {"host": HOST, **headers, **added}


def check(headers: dict[str, str], **changes: Any) -> SignatureFault | None:
    request = {"path": "/@connections/abc", "body": b"hello", "now_ms": AT_MS, **changes}
    return verify(
        request.get("credential", CREDENTIAL),
        request.get("method", "POST"),
        request["path"],
        request.get("query", ""),
        headers,
        request["body"],
        request["now_ms"],
    )


def test_verify_accepts_what_sign_produced() -> None:
    assert check(signed()) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "/@connections/abd"},
        {"path": "/@connections/ab%63"},
        {"body": b"hellO"},
        {"method": "DELETE"},
        {"query": "a=1"},
        {"credential": Credential("AKIDEXAMPLE", "another secret", "eu-west-1")},
    ],
)
def test_verify_refuses_a_request_that_was_changed(changes: dict[str, Any]) -> None:
    assert check(signed(), **changes) is SignatureFault.MISMATCH


def test_verify_refuses_a_changed_signed_header() -> None:
    headers = signed(**{"content-type": "application/json"})
    headers["content-type"] = "text/plain"

    assert check(headers) is SignatureFault.MISMATCH


def test_verify_refuses_a_signed_header_that_is_missing() -> None:
    headers = signed(**{"content-type": "application/json"})
    del headers["content-type"]

    assert check(headers) is SignatureFault.MISMATCH


def test_verify_ignores_headers_that_were_not_signed() -> None:
    assert check({**signed(), "user-agent": "curl"}) is None


def test_verify_refuses_a_request_without_authorization() -> None:
    assert check({"host": HOST}) is SignatureFault.MISSING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Bearer abc"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=a/b, Signature=c"),
        ("authorization", "\udc80"),
        ("x-amz-date", ""),
        ("x-amz-date", "20261399T000000Z"),
    ],
)
def test_verify_refuses_headers_that_cannot_be_read(name: str, value: str) -> None:
    headers = signed()
    day = value[:8]
    headers[name] = value
    if name == "x-amz-date" and day:
        headers["authorization"] = headers["authorization"].replace(
            headers["authorization"].split("/")[1], day
        )

    assert check(headers) is SignatureFault.MALFORMED


@pytest.mark.parametrize("skew_ms", [-300_000, 0, 300_000])
def test_verify_accepts_clocks_five_minutes_apart(skew_ms: int) -> None:
    whole_second = AT_MS // 1000 * 1000

    assert check(signed(), now_ms=whole_second + skew_ms) is None


@pytest.mark.parametrize("skew_ms", [-301_000, 301_000, 10**15])
def test_verify_refuses_a_request_from_another_time(skew_ms: int) -> None:
    assert check(signed(), now_ms=AT_MS + skew_ms) is SignatureFault.EXPIRED


def test_verify_refuses_a_scope_of_another_day() -> None:
    headers = signed()
    headers["x-amz-date"] = "20200101T000000Z"

    assert check(headers) is SignatureFault.WRONG_SCOPE


@pytest.mark.parametrize(
    ("credential", "fault"),
    [
        (Credential("AKIDEXAMPLE", "x", "us-east-1"), SignatureFault.WRONG_SCOPE),
        (Credential("ANOTHER", "x", "eu-west-1"), SignatureFault.UNKNOWN_KEY),
        (Credential("ANÖTHER", "x", "eu-west-1"), SignatureFault.UNKNOWN_KEY),
    ],
)
def test_verify_refuses_another_key_or_region(
    credential: Credential, fault: SignatureFault
) -> None:
    assert check(signed(), credential=credential) is fault


def test_verify_refuses_another_service() -> None:
    added = sign(CREDENTIAL, "POST", HOST, "/", "", {}, b"", AT_MS, service="sqs")

    fault = verify(CREDENTIAL, "POST", "/", "", {"host": HOST, **added}, b"", AT_MS)

    assert fault is SignatureFault.WRONG_SCOPE


def test_verify_refuses_a_request_whose_host_is_not_signed() -> None:
    headers = signed()
    headers["authorization"] = headers["authorization"].replace("host;", "")

    assert check(headers) is SignatureFault.HOST_NOT_SIGNED


def test_verify_checks_a_declared_content_hash_against_the_body() -> None:
    good = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

    assert check(signed(**{"x-amz-content-sha256": good})) is None
    assert check(signed(**{"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})) is (
        SignatureFault.BODY_CHANGED
    )


def test_credentials_never_print_their_secrets() -> None:
    text = repr(Credential("AKID", "hush", "us-east-1", "hush-token"))

    assert "hush" not in text


@given(
    path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
    query=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20),
    body=st.binary(max_size=50),
)
def test_verify_accepts_anything_that_sign_signs(path: str, query: str, body: bytes) -> None:
    added = sign(CREDENTIAL, "POST", HOST, "/" + path, query, {}, body, AT_MS)

    headers = {"host": HOST, **added}
    assert verify(CREDENTIAL, "POST", "/" + path, query, headers, body, AT_MS) is None
