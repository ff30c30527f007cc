"""What every FramePush does, in memory and over the Management API on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec
import pytest
import uvicorn

from services.gateway.management_api import ManagementApi as GatewayApi
from shared.adapters.http_session import HttpSession
from shared.adapters.management_api_push import ManagementApiPush
from shared.clock import SystemClock
from shared.contracts.identifiers import ConnectionId
from shared.contracts.pushes import BATCH_LIMIT_BYTES, PushFrame, PushStatus
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential, verify
from shared.ports import FramePush
from tests.fakes.clock import FakeClock
from tests.fakes.http_server import Exchange, RawServer, raw_server
from tests.fakes.push import FakePush

CREDENTIAL = Credential("AKIDPUSH", "push-secret", "us-east-1")
SENT, GONE, TOO_LARGE, THROTTLED = (
    PushStatus.SENT,
    PushStatus.GONE,
    PushStatus.TOO_LARGE,
    PushStatus.THROTTLED,
)


def frame(connection: str, text: str = "{}") -> PushFrame:
    return PushFrame(ConnectionId(connection), text.encode())


@dataclass
class ManagementApi:
    """A double of the private port: statuses by connection, and every text that was taken."""

    statuses: dict[str, int] = field(default_factory=dict)
    texts: list[tuple[str, str]] = field(default_factory=list)
    credential: Credential = CREDENTIAL
    in_flight: int = 0
    most_in_flight: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        fault = verify(
            self.credential,
            request.method,
            request.path,
            request.query,
            request.headers,
            request.body,
            SystemClock().now_ms(),
        )
        if fault is not None:
            await exchange.answer_json({"message": "Forbidden"}, 403)
            return
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        path = request.path.removeprefix("/prod")
        if path == "/@connections":
            lines = [msgspec.json.decode(line) for line in request.body.split(b"\n")]
            await exchange.answer_json(
                [self._take(line["connection_id"], line["data"]) for line in lines]
            )
        else:
            connection = unquote(path.removeprefix("/@connections/"))
            await exchange.answer(self._take(connection, request.body.decode()))
        self.in_flight -= 1

    def _take(self, connection: str, text: str) -> int:
        status = self.statuses.get(connection, 200)
        if status == 200:
            self.texts.append((connection, text))
        return status


@dataclass
class Rig:
    push: FramePush
    endpoint: str
    set_status: Callable[[str, PushStatus], None]
    texts: Callable[[], list[tuple[str, str]]]


@asynccontextmanager
async def in_memory() -> AsyncIterator[Rig]:
    push = FakePush(FakeClock())
    refusals = {GONE: push.gone, TOO_LARGE: push.too_large, THROTTLED: push.throttled}
    yield Rig(
        push,
        "http://gateway-1",
        lambda connection, status: refusals[status].add(connection),
        lambda: [
            (connection, data.decode())
            for connection, each in push.received.items()
            for data in each
        ],
    )


@asynccontextmanager
async def over_http() -> AsyncIterator[Rig]:
    api = ManagementApi()
    http = HttpSession()
    async with raw_server(api) as server:
        push = ManagementApiPush(
            http, CREDENTIAL, SystemClock(), timeout_ms=2_000, requests_per_endpoint=8
        )
        yield Rig(push, server.url, api.statuses.__setitem__, lambda: api.texts)
        await http.close()


class OpenConnections:
    """The gateway's connections as its Management API sees them."""

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        self.texts: list[tuple[str, str]] = []

    def deliver(self, connection_id: str, data: bytes) -> int:
        status = self.statuses.get(connection_id, 200)
        if status == 200:
            self.texts.append((connection_id, data.decode()))
        return status

    def find(self, connection_id: str) -> None:
        return None


@asynccontextmanager
async def over_our_gateway() -> AsyncIterator[Rig]:
    connections = OpenConnections()
    app = GatewayApi(connections, CREDENTIAL, dict, SystemClock())  # type: ignore[arg-type]
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    http = HttpSession()
    port = listener.getsockname()[1]
    yield Rig(
        ManagementApiPush(
            http, CREDENTIAL, SystemClock(), timeout_ms=2_000, requests_per_endpoint=8
        ),
        f"http://127.0.0.1:{port}",
        connections.statuses.__setitem__,
        lambda: connections.texts,
    )
    await http.close()
    server.should_exit = True
    await serving


@pytest.fixture(
    params=[in_memory, over_http, over_our_gateway], ids=["fake", "management_api", "gateway"]
)
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with request.param() as running:
        yield running


async def test_push_sends_one_frame(rig: Rig) -> None:
    assert list(await rig.push.push(rig.endpoint, [frame("c1", '{"a":"ü"}')])) == [SENT]
    assert rig.texts() == [("c1", '{"a":"ü"}')]


async def test_push_keeps_the_order_of_frames(rig: Rig) -> None:
    frames = [frame("c1", "1"), frame("c2", "2"), frame("c1", "3"), frame("c1", "4")]

    assert list(await rig.push.push(rig.endpoint, frames)) == [SENT] * 4
    assert [text for connection, text in rig.texts() if connection == "c1"] == ["1", "3", "4"]


@pytest.mark.parametrize("status", [GONE, TOO_LARGE, THROTTLED])
async def test_push_answers_each_connection_for_itself(rig: Rig, status: PushStatus) -> None:
    rig.set_status("bad", status)

    statuses = await rig.push.push(rig.endpoint, [frame("c1"), frame("bad"), frame("c2")])

    assert list(statuses) == [SENT, status, SENT]


@pytest.mark.case("B-40")
async def test_push_of_one_frame_answers_its_status(rig: Rig) -> None:
    rig.set_status("bad", GONE)

    assert list(await rig.push.push(rig.endpoint, [frame("bad")])) == [GONE]


async def test_push_of_nothing_asks_nobody(rig: Rig) -> None:
    assert list(await rig.push.push(rig.endpoint, [])) == []


@asynccontextmanager
async def pushing(
    handler: Callable[[Exchange], object], timeout_ms: int = 2_000, **options: int
) -> AsyncIterator[tuple[ManagementApiPush, RawServer]]:
    http = HttpSession()
    async with raw_server(handler) as server:  # type: ignore[arg-type]
        yield (
            ManagementApiPush(
                http,
                CREDENTIAL,
                SystemClock(),
                timeout_ms=timeout_ms,
                **{"requests_per_endpoint": 8, **options},
            ),
            server,
        )
        await http.close()


@pytest.mark.case("B-09")
async def test_several_frames_travel_in_one_request_and_one_frame_as_aws_sends_it() -> None:
    async with pushing(ManagementApi()) as (push, server):
        await push.push(server.url, [frame("c1"), frame("c2")])
        await push.push(server.url, [frame("c1")])

    assert [request.path for request in server.requests] == ["/@connections", "/@connections/c1"]
    assert server.requests[0].headers["content-type"] == "application/x-ndjson"


async def test_ids_are_percent_encoded_and_the_stage_comes_first() -> None:
    api = ManagementApi()
    async with pushing(api) as (push, server):
        statuses = await push.push(server.url + "/prod/", [frame("L0SM9/c O+Hw=")])

    assert list(statuses) == [SENT]
    assert server.requests[0].path == "/prod/@connections/L0SM9%2Fc%20O%2BHw%3D"
    assert api.texts == [("L0SM9/c O+Hw=", "{}")]


async def test_a_batch_above_the_limit_is_split_in_order() -> None:
    api = ManagementApi()
    frames = [frame("c1", f"{number}" + "x" * 100_000) for number in range(25)]
    async with pushing(api) as (push, server):
        statuses = await push.push(server.url, frames)

    assert list(statuses) == [SENT] * 25
    assert len(server.requests) == 3
    assert all(len(request.body) <= BATCH_LIMIT_BYTES for request in server.requests)
    assert [text for _, text in api.texts] == [each.data.decode() for each in frames]


@pytest.mark.case("B-10")
async def test_a_frame_above_the_limit_of_one_post_is_not_sent() -> None:
    async with pushing(ManagementApi()) as (push, server):
        assert list(await push.push(server.url, [frame("c1", "x" * 131_073)])) == [TOO_LARGE]

    assert server.requests == []


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.case("B-36")
async def test_a_refused_signature_is_a_configuration_error(count: int) -> None:
    api = ManagementApi(credential=Credential("AKIDPUSH", "another", "us-east-1"))
    async with pushing(api) as (push, server):
        with pytest.raises(ConfigurationError, match="BURSTCHAT_PUSH_SECRET_ACCESS_KEY"):
            await push.push(server.url, [frame("c1")] * count)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_a_failed_request_is_unavailable(status: int, count: int) -> None:
    async with pushing(lambda exchange: exchange.answer(status)) as (push, server):
        with pytest.raises(DependencyUnavailable):
            await push.push(server.url, [frame("c1")] * count)


@pytest.mark.parametrize("body", [b"[200]", b"[200,299]", b"[]", b"{}", b"nonsense"])
async def test_statuses_that_cannot_be_read_are_unavailable(body: bytes) -> None:
    async with pushing(lambda exchange: exchange.answer(200, body)) as (push, server):
        with pytest.raises(DependencyUnavailable):
            await push.push(server.url, [frame("c1"), frame("c2")])


@pytest.mark.parametrize("count", [1, 2])
async def test_silence_is_unavailable_within_the_time_out(count: int) -> None:
    async with pushing(lambda exchange: exchange.until_client_left(), timeout_ms=50) as (
        push,
        server,
    ):
        with pytest.raises(DependencyUnavailable):
            await push.push(server.url, [frame("c1")] * count)


async def test_nobody_listening_is_unavailable(unused_tcp_port: int) -> None:
    http = HttpSession()
    push = ManagementApiPush(
        http, CREDENTIAL, SystemClock(), timeout_ms=2_000, requests_per_endpoint=8
    )

    with pytest.raises(DependencyUnavailable):
        await push.push(f"http://127.0.0.1:{unused_tcp_port}", [frame("c1")])
    await http.close()


@pytest.mark.case("B-34")
async def test_a_kept_connection_that_was_closed_meanwhile_is_replaced() -> None:
    async def answer_once(exchange: Exchange) -> None:
        await exchange.answer(200)
        exchange.reset()

    async with pushing(answer_once) as (push, server):
        for _ in range(3):
            assert list(await push.push(server.url, [frame("c1")])) == [SENT]


async def test_connections_are_kept_alive() -> None:
    async with pushing(ManagementApi()) as (push, server):
        for _ in range(5):
            await push.push(server.url, [frame("c1")])

    assert server.connections == 1


async def test_requests_in_flight_to_one_endpoint_are_bounded() -> None:
    api = ManagementApi()
    async with pushing(api, requests_per_endpoint=3) as (push, server):
        await asyncio.gather(*(push.push(server.url, [frame(f"c{n}")]) for n in range(20)))

    assert api.most_in_flight <= 3
    assert len(api.texts) == 20


@pytest.mark.parametrize(
    ("endpoint", "fault"),
    [
        ("wss://abc.execute-api.us-east-1.amazonaws.com/prod", "sockets"),
        ("https://abc.execute-api.us-east-1.amazonaws.com", "stage"),
        ("https://chat.example.com/prod/prod", "twice"),
        ("http://10.0.0.1:8081/prod/@connections", "@connections"),
        ("10.0.0.1:8081", "scheme"),
        ("", "scheme"),
    ],
)
@pytest.mark.case("B-36")
async def test_a_wrong_endpoint_names_the_setting(endpoint: str, fault: str) -> None:
    push = ManagementApiPush(
        HttpSession(), CREDENTIAL, SystemClock(), timeout_ms=2_000, requests_per_endpoint=8
    )

    with pytest.raises(ConfigurationError, match=f"BURSTCHAT_PRIVATE_ENDPOINT.*{fault}"):
        await push.push(endpoint, [frame("c1")])
