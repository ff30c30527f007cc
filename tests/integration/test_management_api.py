"""The private port against an unmodified boto3 client: every verb and every error of PROTOCOL §7."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from shared.bootstrap.adapters import push_credential
from shared.contracts.pushes import PushFrame, PushStatus
from shared.policy.sigv4 import sign
from tests.fakes.gateway_world import GatewayWorld, gateway_world


@pytest.fixture
async def world() -> AsyncIterator[GatewayWorld]:
    async with gateway_world() as running:
        yield running


def management_client(world: GatewayWorld, stage: str = "", secret: str = "push-secret") -> Any:
    return boto3.client(
        "apigatewaymanagementapi",
        endpoint_url=world.private_url + stage,
        region_name="us-east-1",
        aws_access_key_id="AKTEST",
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


async def call(method: Any, **arguments: Any) -> Any:
    return await asyncio.to_thread(method, **arguments)


async def error_of(method: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        await call(method, **arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("stage", ["", "/prod"])
async def test_boto3_posts_reads_and_deletes_a_connection(world: GatewayWorld, stage: str) -> None:
    boto = management_client(world, stage)
    async with world.client(user_agent_header="test-agent") as client:
        connection_id = client.ready["connection_id"]
        data = '{"type":"x","text":"héllo"}'.encode()
        answer = await call(boto.post_to_connection, ConnectionId=connection_id, Data=data)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert await client.socket.recv() == data.decode()

        seen = await call(boto.get_connection, ConnectionId=connection_id)
        assert abs(datetime.now(UTC) - seen["ConnectedAt"]) < timedelta(seconds=10)
        assert seen["LastActiveAt"] >= seen["ConnectedAt"]
        assert seen["Identity"] == {"SourceIp": "127.0.0.1", "UserAgent": "test-agent"}

        deleted = await call(boto.delete_connection, ConnectionId=connection_id)
        assert deleted["ResponseMetadata"]["HTTPStatusCode"] == 204
        assert await client.closed() == 4000


async def test_posts_for_one_connection_keep_their_order(world: GatewayWorld) -> None:
    boto = management_client(world)
    async with world.client() as client:
        connection_id = client.ready["connection_id"]
        for number in range(20):
            data = str(number).encode()
            await call(boto.post_to_connection, ConnectionId=connection_id, Data=data)
        assert [await client.socket.recv() for _ in range(20)] == [str(n) for n in range(20)]


@pytest.mark.parametrize("connection_id", ["unknown", "L0SM9cOFvHcCIhw=", "a/b", "ä ö"])
@pytest.mark.case("B-08")
async def test_an_unknown_connection_is_gone(world: GatewayWorld, connection_id: str) -> None:
    boto = management_client(world)
    wanted = {"ConnectionId": connection_id}
    assert await error_of(boto.post_to_connection, Data=b"x", **wanted) == ("GoneException", 410)
    # botocore models the same error for all three.
    assert await error_of(boto.get_connection, **wanted) == ("GoneException", 410)
    assert await error_of(boto.delete_connection, **wanted) == ("GoneException", 410)
    with pytest.raises(boto.exceptions.GoneException):
        await call(boto.get_connection, **wanted)


async def test_a_closed_connection_is_gone(world: GatewayWorld) -> None:
    boto = management_client(world)
    async with world.client() as client:
        connection_id = client.ready["connection_id"]
    await asyncio.wait_for(world.gateway.connections.wait_until_empty(), 5)
    code, _ = await error_of(boto.post_to_connection, ConnectionId=connection_id, Data=b"x")
    assert code == "GoneException"


@pytest.mark.case("B-36")
async def test_a_wrong_signature_is_forbidden_and_removes_nothing(world: GatewayWorld) -> None:
    stranger = management_client(world, secret="wrong")
    async with world.client() as client:
        wanted = {"ConnectionId": client.ready["connection_id"]}
        refused = ("ForbiddenException", 403)
        assert await error_of(stranger.post_to_connection, Data=b"x", **wanted) == refused
        assert await error_of(stranger.get_connection, **wanted) == refused
        assert await error_of(stranger.delete_connection, **wanted) == refused
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{world.private_url}/@connections/x", data=b"x") as answer,
        ):
            assert answer.status == 403
            assert answer.headers["x-amzn-ErrorType"] == "ForbiddenException"
            assert await answer.json() == {"message": "Forbidden"}
        await client.send("ping")
        assert (await client.frame())["type"] == "pong"


@pytest.mark.parametrize("path", ["/", "/prod/prod/@connections/x", "/elsewhere", "/@connections"])
@pytest.mark.case("B-36")
async def test_a_wrong_address_is_not_found_or_not_allowed(world: GatewayWorld, path: str) -> None:
    status, _ = await signed(world, "GET", path)
    assert status == (405 if path == "/@connections" else 404)


@pytest.mark.case("B-10")
async def test_a_message_above_the_limit_is_too_large(world: GatewayWorld) -> None:
    boto = management_client(world)
    async with world.client() as client:
        wanted = {"ConnectionId": client.ready["connection_id"]}
        largest = b"x" * 131_072
        await call(boto.post_to_connection, Data=largest, **wanted)
        assert len(await client.socket.recv()) == 131_072
        refused = ("PayloadTooLargeException", 413)
        assert await error_of(boto.post_to_connection, Data=largest + b"x", **wanted) == refused
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            f"{world.private_url}/@connections/x", data=io.BytesIO(b"x" * 1_048_577)
        ) as answer,
    ):
        assert answer.status == 413


@pytest.mark.parametrize("data", [b"", b"\xff\xfe"])
async def test_a_body_that_is_no_text_is_a_bad_request(world: GatewayWorld, data: bytes) -> None:
    boto = management_client(world)
    async with world.client() as client:
        wanted = {"ConnectionId": client.ready["connection_id"]}
        code, status = await error_of(boto.post_to_connection, Data=data, **wanted)
        assert (code, status) == ("BadRequestException", 400)


@pytest.mark.case("B-19")
async def test_an_outbox_that_is_half_full_is_limited(world: GatewayWorld) -> None:
    boto = management_client(world)
    async with world.client() as client:
        wanted = {"ConnectionId": client.ready["connection_id"]}
        client.socket.transport.pause_reading()
        with pytest.raises(boto.exceptions.LimitExceededException) as caught:
            for _ in range(400):
                await call(boto.post_to_connection, Data=b"x" * 60_000, **wanted)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        client.socket.transport.resume_reading()


async def test_a_batch_answers_each_line_in_order(world: GatewayWorld) -> None:
    async with world.client() as first, world.client("?session_id=s2") as second:
        ids = [client.ready["connection_id"] for client in (first, second)]
        frames = [
            PushFrame(ids[0], b"1"),
            PushFrame(ids[1], b"2"),
            PushFrame("unknown", b"3"),  # type: ignore[arg-type]
            PushFrame(ids[0], "4 – é".encode()),
        ]
        statuses = await world.push.push(world.private_url, frames)
        assert statuses == [
            PushStatus.SENT,
            PushStatus.SENT,
            PushStatus.GONE,
            PushStatus.SENT,
        ]
        assert [await first.socket.recv() for _ in range(2)] == ["1", "4 – é"]
        assert await second.socket.recv() == "2"


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/x-ndjson", b"", 200),
        ("application/x-ndjson; charset=utf-8", b'{"connection_id":"x","data":"y"}\n', 200),
        ("application/json", b'{"connection_id":"x","data":"y"}\n', 400),
        ("application/x-ndjson", b"nonsense\n", 400),
        ("application/x-ndjson", b'{"connection_id":"x"}\n', 400),
        ("application/x-ndjson", b'{"connection_id":"x","data":7}\n', 400),
    ],
)
async def test_a_batch_is_ndjson_or_refused_as_a_whole(
    world: GatewayWorld, content_type: str, body: bytes, status: int
) -> None:
    headers = {"content-type": content_type}
    got, text = await signed(world, "POST", "/prod/@connections", body, headers)
    assert got == status
    if status == 200:
        assert json.loads(text) == ([410] if body else [])


async def test_stats_count_sockets_and_turns(world: GatewayWorld) -> None:
    async with world.client() as client:
        await client.ask()
        status, text = await signed(world, "GET", "/internal/stats")
        assert status == 200
        assert json.loads(text) == {
            "connections": 1,
            "virtual_connections": 0,
            "running_turns": 1,
            "outbox_bytes": 0,
            "draining": False,
        }


async def signed(
    world: GatewayWorld,
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> tuple[int, str]:
    """A request signed with the service's own credential."""
    headers = headers or {}
    host = world.private_url.removeprefix("http://")
    signature = sign(
        push_credential(world.settings),
        method,
        host,
        path,
        "",
        headers,
        body,
        world.clock.now_ms(),
    )
    async with (
        aiohttp.ClientSession() as http,
        http.request(
            method, world.private_url + path, data=body, headers={**headers, **signature}
        ) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("port", "path"), [("public", "/v1/tokens"), ("private", "/@connections/x")]
)
async def test_a_body_that_drips_in_is_given_up(
    world: GatewayWorld, port: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-open and dripping callers hold a connection for seconds, not for ever."""
    monkeypatch.setattr("services.gateway.public_api.BODY_TIMEOUT_S", 0.05)
    monkeypatch.setattr("services.gateway.management_api.BODY_TIMEOUT_S", 0.05)
    url = urlsplit(world.http_url if port == "public" else world.private_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{"
    writer.write(head.encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
