"""The terminal chat against a real socket server, its lines and interrupts given by the test."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from clients.address import ServerAddress
from clients.terminal import FAILED, LEFT, REFUSED, TerminalChat, run_chat
from tests.fakes.chat_server import WORDS, FakeChatServer


class Screen(io.StringIO):
    """Output that tells when it grew."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    async def shows(self, holds: str | Callable[[str], bool]) -> str:
        test = holds if callable(holds) else lambda text: holds in text
        async with asyncio.timeout(10):
            while not test(self.getvalue()):
                await asyncio.sleep(0.005)
        return self.getvalue()


@asynccontextmanager
async def chatting(
    server: FakeChatServer, screen: Screen
) -> AsyncIterator[tuple[TerminalChat, asyncio.Task[int]]]:
    chat = TerminalChat(ServerAddress.parse(server.url), None, "s1", screen)
    task = asyncio.create_task(chat.run())
    try:
        await screen.shows("session s1")
        yield chat, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_terminal_streams_an_answer_and_leaves(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, task):
        chat.line("hello")
        text = await screen.shows("first words after")
        assert WORDS + "You said: hello\n[inline · first words after 0.32 s]" in text
        chat.line("/quit")
        assert await task == LEFT


async def test_terminal_leaves_after_piped_input_is_answered(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, task):
        chat.line("hello")
        chat.end_of_input()
        assert await task == LEFT
    assert "You said: hello" in screen.getvalue()


async def test_terminal_first_interrupt_stops_the_answer_and_the_next_leaves(
    server: FakeChatServer,
) -> None:
    server.pace_s = 0.005
    screen = Screen()
    async with chatting(server, screen) as (chat, task):
        chat.line("/slow")
        await screen.shows("One calm answer")
        chat.interrupt()
        await screen.shows("[stopped]")
        assert not task.done()
        chat.interrupt()
        assert await task == LEFT


async def test_terminal_second_interrupt_leaves_though_the_turn_still_runs(
    server: FakeChatServer,
) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, task):
        chat.line("/silent")
        chat.interrupt()
        chat.interrupt()
        assert await task == LEFT


async def test_terminal_retries_a_failed_turn(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, _):
        chat.line("/retry")
        await screen.shows("[nothing to ask again]")
        chat.line("/fail")
        await screen.shows("The answer broke off.")
        chat.line("/retry")
        await screen.shows(lambda text: text.count("The answer broke off.") == 2)
    ids = {frame["message_id"] for frame in server.received}
    assert len(ids) == 2


async def test_terminal_repeats_a_rejected_message_with_its_id(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, _):
        chat.line("/reject")
        await screen.shows("Not sent: Very many people")
        chat.line("/retry")
        await screen.shows(lambda text: text.count("Not sent") == 2)
    ids = {frame["message_id"] for frame in server.received}
    assert len(ids) == 1


async def test_terminal_answers_for_every_line_of_a_quick_series(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, task):
        for line in ("hello", "/reject", "again", "/reject rate_limited"):
            chat.line(line)
        chat.end_of_input()
        assert await task == LEFT
    text = screen.getvalue()
    assert text.count("Not sent: Very many people") == 2
    for line in ("hello", "again"):
        assert f"› {line}\n{WORDS}You said: {line}\n[" in text
    for line in ("/reject", "/reject rate_limited"):
        assert f"› {line}\nNot sent: " in text


async def test_terminal_shows_history(server: FakeChatServer) -> None:
    first = Screen()
    async with chatting(server, first) as (chat, _):
        chat.line("hello")
        await first.shows("first words")
    screen = Screen()
    async with chatting(server, screen) as (chat, _):
        chat.line("/history")
        await screen.shows("› hello\nOne calm answer")


async def test_terminal_says_that_it_reconnects(server: FakeChatServer) -> None:
    screen = Screen()
    async with chatting(server, screen) as (chat, _):
        chat.line("/drop")
        await screen.shows("[the connection was lost, reconnecting]")
        await screen.shows("[inline · first words")


async def test_terminal_prompts_and_refuses_what_is_too_long(server: FakeChatServer) -> None:
    screen = Screen(is_terminal=True)
    async with chatting(server, screen) as (chat, _):
        await screen.shows("› ")
        chat.line("x" * 17_000)
        await screen.shows("too long")
        chat.line("/help")
        await screen.shows(lambda text: text.count("/quit leaves") == 2)
        chat.line("")
        await screen.shows(lambda text: text.count("› ") == 4)
    assert server.received == []


async def test_terminal_ends_when_the_server_ends_it_for_good(
    server: FakeChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen()
    async with chatting(server, screen) as (_, task):
        await server.close_all(4401)
        assert await task == REFUSED
    assert "token has expired" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "session_id", "words"),
    [
        ("http://127.0.0.1:9", None, "no server answers at http://127.0.0.1:9"),
        ("gopher://x", None, "not the address of a chat server"),
        ("http://127.0.0.1:9", "a b", "a session id has"),
    ],
)
async def test_run_chat_explains_in_one_sentence_why_it_cannot_start(
    url: str, session_id: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_chat(url, None, session_id) == FAILED
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("status", [200, 404, 405, 426])
async def test_terminal_gives_up_on_a_server_that_is_no_gateway(
    server: FakeChatServer, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse_with = status
    chat = TerminalChat(ServerAddress.parse(server.url), None, "s1", Screen())
    async with asyncio.timeout(10):
        assert await chat.run() == FAILED
    assert capsys.readouterr().err == (
        f"burstchat: what answers at {server.url} is no chat server (HTTP {status}); "
        "name another with --url.\n"
    )
    assert len(server.handshakes) == 1
