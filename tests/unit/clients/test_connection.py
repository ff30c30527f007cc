"""The connection against a real socket server that speaks the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from clients.address import ServerAddress
from clients.connection import Connection, NotAGateway, Unreachable
from clients.reducer import Turn
from shared.contracts.identifiers import MessageId, SessionId
from shared.contracts.server_frames import AnyServerFrame
from tests.fakes.chat_server import RICH, WORDS, FakeChatServer

M1, M2 = MessageId("m1"), MessageId("m2")


class Client:
    """A running connection and a way to wait for what it shows."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._changed = asyncio.Event()
        self.links: list[str] = []
        self.connection = Connection(
            ServerAddress.parse(url),
            token=token,
            session_id=SessionId("s1"),
            on_change=self._on_change,
            chance=lambda: 0.0,
        )

    def _on_change(self, frame: AnyServerFrame | None) -> None:
        state = self.connection.link.state
        if self.links[-1:] != [state]:
            self.links.append(state)
        self._changed.set()

    async def until(self, holds: Callable[[Connection], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds(self.connection):
                self._changed.clear()
                await self._changed.wait()

    async def online(self) -> None:
        await self.until(lambda connection: connection.link.state == "online")

    async def ended(self, message_id: MessageId = M1) -> Turn:
        await self.until(lambda _: self.turn(message_id).is_ended)
        return self.turn(message_id)

    def turn(self, message_id: MessageId = M1) -> Turn:
        turns = self.connection.state.turns
        return next(turn for turn in turns if turn.message_id == message_id)


@asynccontextmanager
async def running(url: str, token: str | None = None) -> AsyncIterator[Client]:
    client = Client(url, token)
    task = asyncio.create_task(client.connection.run())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_connection_streams_an_answer(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/rich please")
        turn = await client.ended()
    assert (turn.status, turn.text, turn.verified) == ("completed", RICH, True)
    assert [source.title for source in turn.sources] == ["Staff picks", "Stock list"]


async def test_connection_speaks_the_subprotocol_and_signs_in(server: FakeChatServer) -> None:
    async with running(server.url, token="t0") as client:
        await client.online()
    headers = server.handshakes[0].headers
    assert headers["Authorization"] == "Bearer t0"
    assert headers["Sec-WebSocket-Protocol"] == "burstchat.v1"


@pytest.mark.case("B-08")
async def test_connection_resumes_a_turn_after_a_cut(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/drop")
        turn = await client.ended()
    assert turn.text == "Before the cut, " + WORDS
    assert turn.verified is True
    assert "retrying" in client.links
    assert [frame["type"] for frame in server.received] == ["chat.send", "chat.resume"]


async def test_connection_repeats_an_unanswered_message_with_its_id(
    server: FakeChatServer,
) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/silent")
        await client.online()
        await settle(lambda: len(server.received) == 1)
        server.abort_all()
        await settle(lambda: len(server.received) == 2)
    assert [frame["message_id"] for frame in server.received] == ["m1", "m1"]


async def test_connection_stops_a_turn(server: FakeChatServer) -> None:
    server.pace_s = 0.005
    async with running(server.url) as client:
        client.connection.send(M1, "/slow")
        await client.until(lambda _: client.turn().text != "")
        client.connection.cancel(M1)
        turn = await client.ended()
    assert (turn.status, turn.verified) == ("cancelled", True)


async def test_connection_fetches_a_text_that_fails_its_check(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/wrong")
        await client.until(lambda _: client.turn().verified is True)
        assert client.turn().text == "Right words"


async def test_connection_asks_for_history(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "hello")
        answered = await client.ended()
    async with running(server.url) as client:
        client.connection.ask_history(5)  # not connected yet: nothing happens
        await client.online()
        client.connection.ask_history(5)
        await client.until(lambda connection: len(connection.state.turns) == 1)
        assert client.turn().text == answered.text


@pytest.mark.case("B-26", "B-35")
async def test_connection_honours_the_time_to_reconnect(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        await client.online()
        frame = {"type": "session.goaway", "reason": "drain", "reconnect_after_ms": 50}
        await server.push(frame)
        await settle(lambda: len(server.handshakes) == 2)
        await client.online()


async def test_connection_waits_as_long_as_the_server_asked_when_it_closes_first(
    server: FakeChatServer,
) -> None:
    async with running(server.url) as client:
        await client.online()
        frame = {"type": "session.goaway", "reason": "drain", "reconnect_after_ms": 60_000}
        await server.push(frame)
        await server.push({"type": "pong", "nonce": None, "at_ms": 0})
        await server.close_all(1001)
        await client.until(lambda connection: connection.link.state == "retrying")
        assert 50_000 < client.connection.link.retry_in_ms <= 60_000


@pytest.mark.parametrize("code", [1000, 4000, 4400, 4401, 4429])
async def test_connection_does_not_come_back_after_a_final_close(
    server: FakeChatServer, code: int
) -> None:
    async with running(server.url) as client:
        await client.online()
        await server.close_all(code)
        await client.until(lambda connection: connection.link.state == "stopped")
    assert len(server.handshakes) == 1


@pytest.mark.parametrize("code", [1001, 1011, 1012, 4409])
async def test_connection_comes_back_after_a_passing_close(
    server: FakeChatServer, code: int
) -> None:
    async with running(server.url) as client:
        await client.online()
        await server.close_all(code)
        await settle(lambda: len(server.handshakes) == 2)
        await client.online()


async def test_connection_rests_after_an_idle_close_until_the_user_writes(
    server: FakeChatServer,
) -> None:
    async with running(server.url) as client:
        await client.online()
        await server.close_all(4408)
        await client.until(lambda connection: connection.link.state == "idle")
        client.connection.send(M1, "hello")
        assert (await client.ended()).status == "completed"
    assert len(server.handshakes) == 2


async def test_connection_does_not_repeat_a_message_that_was_too_large(
    server: FakeChatServer,
) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/silent")
        await client.online()
        await settle(lambda: len(server.received) == 1)
        await server.close_all(1009)
        turn = await client.ended()
        await client.online()
    assert (turn.status, turn.code) == ("rejected", "message_too_large")
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_connection_stops_when_the_sign_in_is_refused(
    server: FakeChatServer, status: int
) -> None:
    server.refuse_with = status
    client = Client(server.url)
    words = await client.connection.run()
    assert f"HTTP {status}" in words


async def test_connection_waits_when_the_server_is_full(server: FakeChatServer) -> None:
    server.refuse_with = 503
    async with running(server.url) as client:
        await client.until(lambda connection: connection.link.state == "retrying")
        assert client.connection.link.retry_in_ms == 1000


@pytest.mark.case("B-26")
async def test_clients_that_were_told_the_same_second_come_back_within_it(
    server: FakeChatServer,
) -> None:
    server.refuse_with = 503
    async with running(server.url) as client:
        client.connection._chance = lambda: 0.5
        await client.until(lambda connection: connection.link.retry_in_ms == 1500)


async def test_connection_comes_back_though_a_404_stood_in_for_its_server(
    server: FakeChatServer,
) -> None:
    async with running(server.url) as client:
        await client.online()
        server.refuse_with = 404
        await server.close_all(1012)
        await client.until(lambda connection: "HTTP 404" in connection.link.words)
        server.refuse_with = None
        await client.online()


async def test_connection_names_a_missing_server_at_the_first_attempt() -> None:
    client = Client("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9"):
        await client.connection.run()


async def test_connection_gives_up_on_a_server_that_speaks_something_else() -> None:
    async def reply(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 404 File not found\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as other:
        client = Client(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")
        with pytest.raises(NotAGateway, match=r"not in HTTP/1\.1"):
            await client.connection.run()


async def test_connection_ignores_frames_that_it_does_not_know(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        await client.online()
        await server.push({"type": "chat.mood", "mood": "sunny"})
        client.connection.send(M1, "hello")
        assert (await client.ended()).status == "completed"


async def test_connection_runs_two_messages_in_order(server: FakeChatServer) -> None:
    async with running(server.url) as client:
        client.connection.send(M1, "/queue 0.01")
        client.connection.send(M2, "second")
        await client.ended(M2)
        assert client.turn(M1).path == "burst"
        assert client.turn(M1).status == "completed"


async def settle(holds: Callable[[], bool]) -> None:
    """Wait for something that happens on the server's side."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)
