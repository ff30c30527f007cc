"""What every Guardrail does: the local one, Bedrock's over HTTP, and the fake of other tests.

The server double speaks ApplyGuardrail as botocore's service model describes it: requests are checked against the
model's input shape, answers go through botocore's own parser before they are sent.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import unquote

import botocore.parsers
import botocore.session
import botocore.validate
import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.bedrock_guardrail import BedrockGuardrail
from shared.adapters.http_session import HttpSession
from shared.adapters.local_guardrail import LocalGuardrail
from shared.contracts.guardrails import Allowed, Blocked
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.blocked_phrases import PhraseBook
from shared.policy.sigv4 import Credential, verify
from shared.ports import Guardrail
from tests.fakes.clock import FakeClock
from tests.fakes.guardrail import FakeGuardrail
from tests.fakes.http_calls import FakeHttp
from tests.fakes.http_server import Exchange, RawServer, raw_server

CREDENTIAL = Credential("AKIDGUARD", "secret", "eu-central-1")
GUARDRAIL_ID = "arn:aws:bedrock:eu-central-1:123456789012:guardrail/abc123"
OPERATION = (
    botocore.session.get_session()
    .get_service_model("bedrock-runtime")
    .operation_model("ApplyGuardrail")
)
CARD = "4111 1111 1111 1111"
NO_UNITS = dict.fromkeys(OPERATION.output_shape.members["usage"].required_members, 0)


def answer(action: str = "NONE", outputs: tuple[str, ...] = (), **policies: Any) -> dict[str, Any]:
    """A complete ApplyGuardrailResponse."""
    return {
        "usage": NO_UNITS,
        "action": action,
        "outputs": [{"text": text} for text in outputs],
        "assessments": [policies] if policies else [],
        "guardrailCoverage": {"textCharacters": {"guarded": 1, "total": 1}},
    }


def pii(action: str) -> dict[str, Any]:
    entity = {"match": CARD, "type": "CREDIT_DEBIT_CARD_NUMBER", "action": action, "detected": True}
    return {"piiEntities": [entity], "regexes": []}


def word(action: str) -> dict[str, Any]:
    return {"customWords": [{"match": "secret plan", "action": action}], "managedWordLists": []}


class BedrockDouble:
    """Judges like the guardrail that the tests describe; `script` answers instead when given."""

    def __init__(self) -> None:
        self.script: Callable[[Exchange], Any] | None = None
        self.requests: list[dict[str, Any]] = []
        self.faults: list[str] = []

    async def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        self._check(exchange)
        body = json.loads(request.body)
        self.requests.append(body)
        if self.script is not None:
            await self.script(exchange)
            return
        text = body["content"][0]["text"]["text"]
        if body["source"] == "OUTPUT" and "secret plan" in text:
            await self.send(
                exchange, answer("GUARDRAIL_INTERVENED", ("No.",), wordPolicy=word("BLOCKED"))
            )
        elif CARD in text:
            masked = text.replace(CARD, "[card]")
            found = {"sensitiveInformationPolicy": pii("ANONYMIZED")}
            await self.send(exchange, answer("GUARDRAIL_INTERVENED", (masked,), **found))
        else:
            await self.send(exchange, answer())

    async def send(self, exchange: Exchange, value: dict[str, Any]) -> None:
        raw = json.dumps(value).encode()
        parser = botocore.parsers.create_parser("rest-json")
        parsed = parser.parse(
            {"status_code": 200, "headers": {}, "body": raw}, OPERATION.output_shape
        )
        assert parsed["action"] == value["action"]
        assert parsed["assessments"] == value["assessments"]
        missing = set(OPERATION.output_shape.required_members) - value.keys()
        if missing:
            self.faults.append(f"the double forgot {missing}")
        await exchange.answer(200, raw, {"content-type": "application/json"})

    def _check(self, exchange: Exchange) -> None:
        request = exchange.request
        pattern = OPERATION.http["requestUri"].split("/")
        parts = request.path.split("/")
        if request.method != OPERATION.http["method"] or len(parts) != len(pattern):
            self.faults.append(f"{request.method} {request.path}")
            return
        values = {
            name[1:-1]: unquote(part)
            for name, part in zip(pattern, parts, strict=True)
            if name.startswith("{")
        }
        values |= json.loads(request.body)
        report = botocore.validate.ParamValidator().validate(values, OPERATION.input_shape)
        unknown = values.keys() - OPERATION.input_shape.members.keys()
        if report.has_errors() or unknown:
            self.faults.append(report.generate_report() or str(unknown))
        if values["guardrailIdentifier"] != GUARDRAIL_ID or values["guardrailVersion"] != "7":
            self.faults.append("another guardrail was asked")
        fault = verify(
            CREDENTIAL,
            request.method,
            request.path,
            request.query,
            request.headers,
            request.body,
            FakeClock().now_ms(),
            service=OPERATION.service_model.signing_name,
        )
        if fault is not None:
            self.faults.append(str(fault))


@pytest.fixture
async def bedrock() -> AsyncIterator[tuple[BedrockGuardrail, BedrockDouble, RawServer]]:
    double = BedrockDouble()
    async with AsyncExitStack() as closing:
        server = await closing.enter_async_context(raw_server(double))
        http = HttpSession()
        closing.push_async_callback(http.close)
        yield make_bedrock(server.url, http), double, server
    assert not double.faults


def make_bedrock(url: str, http: HttpSession, timeout_ms: int = 5_000) -> BedrockGuardrail:
    return BedrockGuardrail(
        guardrail_id=GUARDRAIL_ID,
        version="7",
        http=http,
        credentials=AwsCredentials("eu-central-1", fixed=CREDENTIAL),
        clock=FakeClock(),
        base_url=url,
        timeout_ms=timeout_ms,
    )


@pytest.fixture(params=["local", "bedrock", "fake"])
async def guardrail(
    request: pytest.FixtureRequest, bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer]
) -> Guardrail:
    if request.param == "bedrock":
        return bedrock[0]
    if request.param == "local":
        return LocalGuardrail(lambda: PhraseBook(("secret plan",)), masks_pii=True)
    fake = FakeGuardrail("secret plan")
    fake.masks[CARD] = "[card]"
    return fake


async def test_ordinary_text_goes_on_as_it_is(guardrail: Guardrail) -> None:
    text = 'Größe? 🦊 "x" \x01\n漫画'
    assert await guardrail.judge("message", text) == Allowed(text)
    assert await guardrail.judge("reply", text) == Allowed(text)


async def test_personal_data_in_a_message_is_masked(guardrail: Guardrail) -> None:
    verdict = await guardrail.judge("message", f"Pay with {CARD}, please")

    assert verdict == Allowed("Pay with [card], please")


async def test_a_reply_that_must_not_be_is_blocked_without_its_words(guardrail: Guardrail) -> None:
    verdict = await guardrail.judge("reply", "Here is the secret plan")

    assert isinstance(verdict, Blocked)
    assert verdict.reason
    assert "secret" not in verdict.reason


async def test_masking_can_be_switched_off_locally() -> None:
    guardrail = LocalGuardrail(lambda: PhraseBook(()), masks_pii=False)

    assert await guardrail.judge("message", CARD) == Allowed(CARD)


async def test_bedrock_is_asked_once_with_the_source_and_the_text(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer],
) -> None:
    guardrail, double, server = bedrock
    await guardrail.judge("message", "Hi")
    await guardrail.judge("reply", "Hello")

    assert double.requests == [
        {"source": "INPUT", "content": [{"text": {"text": "Hi"}}]},
        {"source": "OUTPUT", "content": [{"text": {"text": "Hello"}}]},
    ]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        (
            answer(
                "GUARDRAIL_INTERVENED",
                ("No.",),
                topicPolicy={"topics": [{"name": "n", "type": "DENY", "action": "BLOCKED"}]},
            ),
            Blocked("topicPolicy"),
        ),
        (
            answer("GUARDRAIL_INTERVENED", ("No.",), sensitiveInformationPolicy=pii("BLOCKED")),
            Blocked("sensitiveInformationPolicy"),
        ),
        (
            answer(
                "GUARDRAIL_INTERVENED",
                ("m",),
                sensitiveInformationPolicy=pii("ANONYMIZED"),
                wordPolicy=word("BLOCKED"),
            ),
            Blocked("wordPolicy"),
        ),
        (
            answer(
                "GUARDRAIL_INTERVENED", ("a", "b"), sensitiveInformationPolicy=pii("ANONYMIZED")
            ),
            Allowed("ab"),
        ),
        (
            answer("GUARDRAIL_INTERVENED", (), sensitiveInformationPolicy=pii("ANONYMIZED")),
            Blocked("intervened"),
        ),
        (answer("GUARDRAIL_INTERVENED", ("No.",)), Blocked("intervened")),
        (answer("NONE", (), wordPolicy=word("NONE")), Allowed("text")),
    ],
)
async def test_only_masking_lets_an_intervention_pass(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer],
    response: dict[str, Any],
    verdict: Allowed | Blocked,
) -> None:
    guardrail, double, _ = bedrock
    double.script = lambda exchange: double.send(exchange, response)

    assert await guardrail.judge("reply", "text") == verdict


FAULTS = {
    "AccessDeniedException": (403, ConfigurationError),
    "ResourceNotFoundException": (404, ConfigurationError),
    "ValidationException": (400, ConfigurationError),
    "ThrottlingException": (429, DependencyUnavailable),
    "ServiceQuotaExceededException": (400, DependencyUnavailable),
    "InternalServerException": (500, DependencyUnavailable),
    "ServiceUnavailableException": (503, DependencyUnavailable),
}


@pytest.mark.parametrize("code", [shape.name for shape in OPERATION.error_shapes])
async def test_every_error_of_the_service_model_is_told_apart(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer], code: str
) -> None:
    guardrail, double, _ = bedrock
    status, error = FAULTS[code]
    headers = {
        "x-amzn-ErrorType": f"{code}:http://internal.amazon.com/",
        "content-type": "application/json",
    }
    double.script = lambda exchange: exchange.answer(status, b'{"message":"no"}', headers)

    with pytest.raises(error, match=code):
        await guardrail.judge("message", "Hi")


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"{}"), (502, b""), (403, b'{"message":"x"}')]
)
async def test_an_answer_that_is_none_means_nobody_could_judge(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer], status: int, body: bytes
) -> None:
    guardrail, double, _ = bedrock
    double.script = lambda exchange: exchange.answer(status, body)

    with pytest.raises(DependencyUnavailable):
        await guardrail.judge("message", "Hi")


async def test_silence_ends_with_the_time_out(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer],
) -> None:
    _, double, server = bedrock

    async def say_nothing(exchange: Exchange) -> None:
        await exchange.until_client_left()

    double.script = say_nothing
    http = HttpSession()
    try:
        with pytest.raises(DependencyUnavailable):
            await make_bedrock(server.url, http, timeout_ms=50).judge("message", "Hi")
    finally:
        await http.close()


async def test_keys_that_have_ended_are_read_again(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer],
) -> None:
    guardrail, double, _ = bedrock
    headers = {"x-amzn-ErrorType": "ExpiredTokenException"}
    double.script = lambda exchange: exchange.answer(403, b"{}", headers)

    with pytest.raises(DependencyUnavailable, match="ExpiredTokenException"):
        await guardrail.judge("message", "Hi")


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_GUARDRAIL_BASE_URL"):
        make_bedrock("ftp://x", HttpSession())


async def test_the_default_address_is_bedrocks_in_the_region() -> None:
    http = FakeHttp(answers=[(200, b'{"action":"NONE"}')])
    await make_bedrock("", http).judge("message", "hello")
    assert http.calls[0].origin == "https://bedrock-runtime.eu-central-1.amazonaws.com"


async def test_the_sdk_sends_the_same_request(
    bedrock: tuple[BedrockGuardrail, BedrockDouble, RawServer],
) -> None:
    """boto3 against the same double: path and body must be what we send."""
    import asyncio

    import boto3

    guardrail, double, server = bedrock
    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url=server.url,
        aws_access_key_id=CREDENTIAL.access_key_id,
        aws_secret_access_key=CREDENTIAL.secret_access_key,
    )
    await guardrail.judge("message", "Größe")
    double._check = lambda exchange: None  # type: ignore[method-assign]  # boto3 signs with the real time
    parsed = await asyncio.to_thread(
        client.apply_guardrail,
        guardrailIdentifier=GUARDRAIL_ID,
        guardrailVersion="7",
        source="INPUT",
        content=[{"text": {"text": "Größe"}}],
    )

    assert parsed["action"] == "NONE"
    ours, theirs = server.requests
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert json.loads(ours.body) == json.loads(theirs.body)
