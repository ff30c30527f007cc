"""What is asked of SageMaker: the very request that the SDK would send, and what each refusal means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import boto3
import msgspec
import pytest
from botocore.config import Config

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.adapters.sagemaker_intent_classifier import (
    TEXT_LIMIT_CHARACTERS,
    SageMakerIntentClassifier,
)
from shared.clock import SystemClock
from shared.contracts.knowledge import Intent
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential
from tests.fakes.http_server import RawServer, raw_server
from tests.fakes.sagemaker import CREDENTIAL, ENDPOINT, ERROR_STATUS, FakeSageMaker


@dataclass
class World:
    endpoint: FakeSageMaker
    server: RawServer
    http: HttpSession

    def classifier(
        self,
        name: str = ENDPOINT,
        credential: Credential = CREDENTIAL,
        timeout_ms: int = 2_000,
    ) -> SageMakerIntentClassifier:
        return SageMakerIntentClassifier(
            endpoint=name,
            http=self.http,
            credentials=AwsCredentials("us-east-1", fixed=credential),
            clock=SystemClock(),
            base_url=self.server.url,
            timeout_ms=timeout_ms,
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    endpoint, http = FakeSageMaker({"parcel": "shipping"}, SystemClock().now_ms()), HttpSession()
    async with raw_server(endpoint.handle) as server:
        yield World(endpoint, server, http)
        await http.close()


async def test_the_request_is_the_one_that_the_sdk_sends(world: World) -> None:
    body = msgspec.json.encode({"inputs": "a parcel"})
    client = boto3.client(
        "sagemaker-runtime",
        region_name="us-east-1",
        endpoint_url=world.server.url,
        aws_access_key_id=CREDENTIAL.access_key_id,
        aws_secret_access_key=CREDENTIAL.secret_access_key,
        config=Config(retries={"max_attempts": 0}),
    )
    answer = await asyncio.to_thread(
        client.invoke_endpoint,
        EndpointName=ENDPOINT,
        ContentType="application/json",
        Accept="application/json",
        Body=body,
    )
    said = {part["label"]: part["score"] for part in msgspec.json.decode(answer["Body"].read())}
    client.close()

    assert await world.classifier().classify("a parcel") == Intent("shipping", said["shipping"])

    sdk, ours = world.server.requests
    assert (ours.method, ours.path, ours.query, ours.body) == (
        sdk.method,
        sdk.path,
        sdk.query,
        sdk.body,
    )
    for name in ("content-type", "accept"):
        assert ours.headers[name] == sdk.headers[name]


async def test_a_long_message_is_cut(world: World) -> None:
    await world.classifier().classify("parcel " * 2_000)
    assert len(world.endpoint.bodies[0]["inputs"]) == TEXT_LIMIT_CHARACTERS


async def test_a_list_of_one_list_is_an_answer_as_well(world: World) -> None:
    world.endpoint.says = b'[[{"label":"returns","score":0.7},{"label":"human","score":0.3}]]'
    assert await world.classifier().classify("x") == Intent("returns", 0.7)


@pytest.mark.parametrize(
    "body",
    [b"[]", b"[[]]", b"{}", b"<html>", b'[{"label":"a","score":1.5}]', b'[{"label":"","score":1}]'],
)
async def test_an_answer_that_is_none_counts_as_no_answer(world: World, body: bytes) -> None:
    world.endpoint.says = body
    with pytest.raises(DependencyUnavailable):
        await world.classifier().classify("x")


@pytest.mark.parametrize("error", sorted(ERROR_STATUS.keys() - {"ValidationError"}))
async def test_each_fault_of_the_service_is_transient(world: World, error: str) -> None:
    world.endpoint.fails_with = error
    with pytest.raises(DependencyUnavailable, match=error):
        await world.classifier().classify("x")


async def test_an_endpoint_that_does_not_exist_names_the_setting(world: World) -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_SAGEMAKER_ENDPOINT"):
        await world.classifier("other").classify("x")


async def test_a_wrong_key_names_the_permission(world: World) -> None:
    wrong = Credential(CREDENTIAL.access_key_id, "other", "us-east-1")
    with pytest.raises(ConfigurationError, match="sagemaker:InvokeEndpoint"):
        await world.classifier(credential=wrong).classify("x")


async def test_an_expired_key_is_read_again_for_the_next_call(world: World) -> None:
    world.endpoint.fails_with = "ExpiredTokenException"
    with pytest.raises(DependencyUnavailable):
        await world.classifier().classify("x")


async def test_an_endpoint_that_is_silent_costs_the_time_out(world: World) -> None:
    world.endpoint.is_silent = True
    with pytest.raises(DependencyUnavailable):
        await world.classifier(timeout_ms=20).classify("x")


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_SAGEMAKER_BASE_URL"):
        SageMakerIntentClassifier(
            endpoint=ENDPOINT,
            http=HttpSession(),
            credentials=AwsCredentials("us-east-1", fixed=CREDENTIAL),
            clock=SystemClock(),
            base_url="runtime.sagemaker",
            timeout_ms=1,
        )
