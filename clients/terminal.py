"""`burstchat chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from clients.address import ServerAddress
from clients.connection import Connection, NotAGateway, Unreachable
from clients.conversation import Conversation
from clients.reducer import Turn
from clients.transcript import Style, Transcript, format_history
from shared.contracts.identifiers import MessageId, SessionId, is_client_id
from shared.contracts.server_frames import AnyServerFrame, ChatHistory, SessionReady

HISTORY_LIMIT = 20
USER_TEXT_LIMIT_BYTES = 16 * 1024
LEFT, FAILED, REFUSED = 0, 1, 2
HELP = "/history shows earlier messages · /retry asks again · /quit leaves · Ctrl-C stops an answer\n\n"


async def run_chat(url: str, token: str | None, session_id: str | None) -> int:
    """Chat until the user leaves or the input ends. Answers the exit status.

    0: left by choice; 1: no chat server there, or a bad address; 2: the server ended it for good.
    """
    try:
        address = ServerAddress.parse(url)
    except ValueError as error:
        print(f"burstchat: {error}", file=sys.stderr)
        return FAILED
    if session_id is not None and not is_client_id(session_id):
        print("burstchat: a session id has 1 to 64 letters, digits, - or _.", file=sys.stderr)
        return FAILED
    chat = TerminalChat(address, token, session_id, sys.stdout)
    reader = threading.Thread(
        target=_read_lines, args=(asyncio.get_running_loop(), chat), daemon=True
    )
    reader.start()
    return await chat.run()


class TerminalChat:
    """Ties a connection to an output; lines and interrupts of the user come in as calls."""

    def __init__(
        self, address: ServerAddress, token: str | None, session_id: str | None, output: TextIO
    ) -> None:
        self._address = address
        self._output = output
        self._style = Style(is_terminal=output.isatty())
        self._transcript = Transcript(self._style)
        self._connection = Connection(
            address,
            token=token,
            session_id=SessionId(session_id) if session_id else None,
            on_change=self._changed,
        )
        self._leaving = asyncio.Event()
        self._input_ended = False
        self._interrupted: MessageId | None = None
        self._told = ""
        self._greeted = False
        self._history_asked = False
        self._prompted = False

    async def run(self) -> int:
        """Until the user leaves (0), no chat server is there (1) or the server ends it (2)."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        connecting = asyncio.create_task(self._connection.run())
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait((connecting, leaving), return_when=asyncio.FIRST_COMPLETED)
            return self._outcome(connecting)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            for task in (connecting, leaving):
                task.cancel()
            await asyncio.gather(connecting, leaving, return_exceptions=True)

    def _outcome(self, connecting: asyncio.Task[str]) -> int:
        if not connecting.done():
            return LEFT
        try:
            words = connecting.result()
        except Unreachable:
            print(
                f"burstchat: no server answers at {self._address.origin}; "
                "start one with `make run` or name another with --url.",
                file=sys.stderr,
            )
            return FAILED
        except NotAGateway as error:
            print(
                f"burstchat: what answers at {self._address.origin} is no chat server "
                f"({error}); name another with --url.",
                file=sys.stderr,
            )
            return FAILED
        print(f"\nburstchat: {words}.", file=sys.stderr)
        return REFUSED

    def line(self, text: str) -> None:
        """One line that the user typed."""
        self._prompted = False
        words = text.strip()
        match words:
            case "":
                self._prompt()
            case "/quit" | "/exit":
                self._leaving.set()
            case "/help":
                self._print(HELP)
                self._prompt()
            case "/history":
                self._history_asked = True
                self._connection.ask_history(HISTORY_LIMIT)
            case "/retry":
                self._retry()
            case _:
                self._say(words)

    def end_of_input(self) -> None:
        """Leave as soon as every answer is complete."""
        self._input_ended = True
        self._leave_when_done()

    def interrupt(self) -> None:
        """Ctrl-C: the first stops the running answer, the next one leaves."""
        running = self._running()
        message_id = None if running is None else running.message_id
        if message_id is None or message_id == self._interrupted:
            self._print("\n")
            self._leaving.set()
            return
        self._interrupted = message_id
        self._connection.cancel(message_id)

    def _say(self, text: str) -> None:
        if len(text.encode()) > USER_TEXT_LIMIT_BYTES:
            self._print(self._style.warn("That is too long (more than 16 KiB).") + "\n")
            self._prompt()
        else:
            self._connection.send(MessageId(f"m{secrets.token_hex(12)}"), text)

    def _retry(self) -> None:
        again = [turn for turn in self._connection.state.turns if turn.retryable]
        if not again:
            self._print(self._style.dim("[nothing to ask again]") + "\n")
            self._prompt()
        elif again[-1].status == "rejected" and again[-1].message_id is not None:
            # It may have been taken in after all, so the repeat must be recognisable.
            self._connection.send(again[-1].message_id, again[-1].user_text)
        else:
            self._say(again[-1].user_text)

    def _changed(self, frame: AnyServerFrame | None) -> None:
        if isinstance(frame, SessionReady) and not self._greeted:
            self._greeted = True
            where = f"{self._address.origin} · session {frame.session_id}"
            self._print(self._style.dim(where) + "\n" + self._style.dim(HELP))
        if isinstance(frame, ChatHistory) and self._history_asked:
            self._history_asked = False
            self._print(format_history(self._connection.state, self._style))
        self._show_link()
        self._print(self._transcript.update(self._connection.state))
        self._prompt()
        self._leave_when_done()

    def _show_link(self) -> None:
        link = self._connection.link
        words = f"[{link.words}, reconnecting]" if link.state == "retrying" else ""
        if words and words != self._told:
            self._print("\n" + self._style.dim(words) + "\n")
            self._prompted = False
        if link.state in ("retrying", "online"):
            self._told = words

    def _prompt(self) -> None:
        """Invite the next message once nothing is being answered; only a terminal shows it."""
        quiet = self._running() is None and self._connection.state.connected
        if quiet and not self._prompted and not self._history_asked and self._output.isatty():
            self._print(self._style.bold("› "))
            self._prompted = True

    def _leave_when_done(self) -> None:
        if self._input_ended and self._greeted and self._running() is None:
            self._leaving.set()

    def _running(self) -> Turn | None:
        return next(_unfinished(self._connection.state), None)

    def _print(self, text: str) -> None:
        if text:
            self._output.write(text)
            self._output.flush()


def _unfinished(state: Conversation) -> Iterator[Turn]:
    return (turn for turn in state.turns if not turn.is_ended)


def _read_lines(loop: asyncio.AbstractEventLoop, chat: TerminalChat) -> None:
    """Hand lines of standard input to the chat, from a thread of its own.

    Reads the descriptor itself: a thread that waits inside `sys.stdin` would hold its lock when the
    interpreter ends.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    with suppress(RuntimeError):  # the loop is closed: the user has left
        while data := _read_some():
            *lines, rest = (rest + decoder.decode(data)).split("\n")
            for line in lines:
                loop.call_soon_threadsafe(chat.line, line)
        if rest:
            loop.call_soon_threadsafe(chat.line, rest)
        loop.call_soon_threadsafe(chat.end_of_input)


def _read_some() -> bytes:
    try:
        return os.read(0, 4096)
    except OSError:
        return b""
