"""What the gateway says of itself is what it does: OpenAPI asked by schemathesis, AsyncAPI held against the frames."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import aiohttp
import jsonschema_rs
import msgspec
import pytest

from services.gateway.asyncapi import asyncapi_document
from services.gateway.identity import Identities
from shared.contracts.client_frames import AnyClientFrame
from shared.contracts.server_frames import AnyServerFrame, decode_server_frame
from tests.fakes.gateway_world import SECRET, GatewayWorld, gateway_world

SETTINGS = Path(__file__).with_name("schemathesis.toml")
COMMAND = Path(sys.executable).with_name("schemathesis")


@asynccontextmanager
async def answering(world: GatewayWorld) -> AsyncIterator[None]:
    """Meanwhile every accepted turn is answered at once."""

    async def answer() -> None:
        answered: set[str] = set()
        while True:
            queued = [request for _, request, _ in world.turn_queue.sent]
            for request in (*world.intake.submitted, *queued):
                if request.turn_id not in answered:
                    answered.add(request.turn_id)
                    with suppress(AssertionError):  # stopped before its claim
                        turn = await world.play(request)
                        await turn.started()
                        await turn.delta("Hello.")
                        await turn.complete()
            await asyncio.sleep(0.005)

    task = asyncio.create_task(answer())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.timeout(300)
async def test_schemathesis_finds_nothing() -> None:
    async with gateway_world(auth_mode="jwt") as world, answering(world):
        identities = Identities(
            mode="jwt", secret=SECRET, audience="burstchat", issuer="burstchat", clock=world.clock
        )
        token, _ = identities.issue("ann", "default", 600_000)
        process = await asyncio.create_subprocess_exec(
            str(COMMAND),
            *("--config-file", str(SETTINGS)),
            *("run", f"{world.http_url}/openapi.json"),
            *("--header", f"Authorization: Bearer {token}"),
            *("--max-examples", "4", "--generation-deterministic"),
            *("--request-timeout", "10", "--no-color"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-20_000:]


async def test_every_answer_of_a_call_is_described_with_an_example() -> None:
    async with gateway_world() as world, aiohttp.ClientSession() as http:
        async with http.get(f"{world.http_url}/openapi.json") as answer:
            document = await answer.json()
        async with http.get(f"{world.http_url}/asyncapi.json") as answer:
            assert await answer.read() == msgspec.json.encode(asyncapi_document())
    calls = {
        (method, path): call
        for path, methods in document["paths"].items()
        for method, call in methods.items()
        if path.startswith("/v1/")
    }
    assert set(calls) == {
        ("post", "/v1/chat"),
        ("post", "/v1/tokens"),
        ("get", "/v1/turns/{turn_id}"),
        ("get", "/v1/turns/{turn_id}/events"),
        ("delete", "/v1/turns/{turn_id}"),
        ("get", "/v1/sessions/{session_id}/turns"),
    }
    sent = set(calls[("post", "/v1/chat")]["responses"])
    wanted = {200, 202, 400, 401, 409, 413, 422, 429, 500, 503, 504}
    assert sent == {str(status) for status in wanted}
    for (_, path), call in calls.items():
        for status, described in call["responses"].items():
            for media in described.get("content", {}).values():
                if path != "/v1/tokens":
                    assert "example" in media, (path, status)
                    assert_fits(media, document)


def assert_fits(media: dict[str, Any], document: dict[str, Any]) -> None:
    """The example is what the schema says; an event stream's is text."""
    if not isinstance(media["example"], str):
        schema = {**media["schema"], "components": document["components"]}
        jsonschema_rs.validate(schema, media["example"])


def test_every_frame_is_described_and_its_example_is_one() -> None:
    document = asyncapi_document()
    messages = document["components"]["messages"]
    kinds = (*get_args(AnyClientFrame), *get_args(AnyServerFrame))
    assert set(messages) == {kind.__name__ for kind in kinds}
    for kind in kinds:
        message = messages[kind.__name__]
        (example,) = message["examples"]
        schema = {**message["payload"], "components": document["components"]}
        jsonschema_rs.validate(schema, example["payload"])
        msgspec.convert(example["payload"], kind)
        assert message["summary"]


def test_every_reference_of_the_description_leads_somewhere() -> None:
    document = asyncapi_document()

    def follow(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                found: Any = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for inner in value.values():
                follow(inner)
        elif isinstance(value, list):
            for inner in value:
                follow(inner)

    follow(document)


def test_what_a_stream_carries_is_a_frame_of_a_socket() -> None:
    document = asyncapi_document()
    for name in document["channels"]["events"]["messages"]:
        (example,) = document["components"]["messages"][name]["examples"]
        assert decode_server_frame(msgspec.json.encode(example["payload"]))
