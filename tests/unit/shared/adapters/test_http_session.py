"""The process's HTTP client on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.adapters.http_session import ConnectFailed, HttpAnswer, HttpSession
from shared.errors import DependencyUnavailable
from tests.fakes.http_server import Exchange, raw_server


@pytest.fixture
async def http() -> AsyncIterator[HttpSession]:
    session = HttpSession()
    yield session
    await session.close()


async def post(
    http: HttpSession, origin: str, target: str = "/x", timeout_s: float = 2
) -> HttpAnswer:
    return await http.send(
        "POST", origin, target, headers={"x-a": "1"}, body=b"hi", timeout_s=timeout_s
    )


async def test_the_target_goes_over_the_wire_as_given(http: HttpSession) -> None:
    async with raw_server(lambda exchange: exchange.answer(302, b"moved")) as server:
        answer = await post(http, server.url, "/a%2Fb%3D/@c?q=%20+")

    [request] = server.requests
    assert (answer.status, answer.body) == (302, b"moved")
    assert (request.path, request.query, request.body) == ("/a%2Fb%3D/@c", "q=%20+", b"hi")
    assert set(request.headers) == {"host", "x-a", "content-length"}


async def test_a_refused_connection_says_that_nothing_was_sent(
    http: HttpSession, unused_tcp_port: int
) -> None:
    with pytest.raises(ConnectFailed):
        await post(http, f"http://127.0.0.1:{unused_tcp_port}")


@pytest.mark.case("B-34")
async def test_a_request_is_sent_once_more_after_a_stale_connection(http: HttpSession) -> None:
    async def cut_the_first(exchange: Exchange) -> None:
        if len(server.requests) == 1:
            exchange.reset()
        else:
            await exchange.answer(200)

    async with raw_server(cut_the_first) as server:
        assert (await post(http, server.url)).status == 200

    assert len(server.requests) == 2


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_peer_that_never_answers_is_unavailable_after_two_tries(
    http: HttpSession, how: str
) -> None:
    async def cut(exchange: Exchange) -> None:
        getattr(exchange, how)()

    async with raw_server(cut) as server:
        with pytest.raises(DependencyUnavailable):
            await post(http, server.url)

    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"!\r\n\r\n"]
)
async def test_an_answer_that_is_cut_or_no_http_is_unavailable(
    http: HttpSession, answer: bytes
) -> None:
    async def speak(exchange: Exchange) -> None:
        await exchange.write(answer)
        exchange.close()

    async with raw_server(speak) as server:
        with pytest.raises(DependencyUnavailable):
            await post(http, server.url)


@pytest.mark.case("B-18")
async def test_silence_is_unavailable_at_the_deadline_and_frees_the_connection(
    http: HttpSession,
) -> None:
    async with raw_server(lambda exchange: exchange.until_client_left()) as server:
        with pytest.raises(DependencyUnavailable):
            await post(http, server.url, timeout_s=0.05)
        async with asyncio.timeout(1):
            await server.until_no_connection()


async def test_waiting_for_a_connection_counts_into_the_deadline() -> None:
    http = HttpSession(connections=1)
    async with raw_server(lambda exchange: exchange.until_client_left()) as server:
        first = asyncio.create_task(post(http, server.url, timeout_s=5))
        await server.until_requests(1)
        with pytest.raises(DependencyUnavailable):
            await post(http, server.url, timeout_s=0.05)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    await http.close()

    assert len(server.requests) == 1


async def test_a_closed_session_opens_again(http: HttpSession) -> None:
    async with raw_server(lambda exchange: exchange.answer(200)) as server:
        await post(http, server.url)
        await http.close()
        await http.close()
        assert (await post(http, server.url)).status == 200
