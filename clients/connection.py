"""Keeps one WebSocket of one session alive (PROTOCOL §4.7 and §5).

Reconnects with full jitter or when the server asked for it, sends unanswered messages again, resumes
unfinished turns (both decided in `conversation.py`), and stops when trying again is useless.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.typing import Subprotocol

from clients import conversation
from clients.address import ServerAddress
from clients.backoff import FRAME_TOO_LARGE, IDLE, STOPPING_CLOSES, full_jitter_ms
from clients.conversation import Conversation, Step
from shared.contracts.client_frames import AnyClientFrame, ChatHistoryRequest
from shared.contracts.identifiers import MessageId, SessionId, TurnId
from shared.contracts.server_frames import (
    AnyServerFrame,
    ChatHistory,
    SessionGoaway,
    SessionReady,
    decode_server_frame,
)

OPEN_TIMEOUT_S = 10
FETCH_TIMEOUT_S = 5
STABLE_AFTER_S = 5
"""A connection that lived this long makes the next delay short again."""
TICK_S = 0.5
FRAME_LIMIT_BYTES = 1024 * 1024
OUTBOX_LIMIT = 1000
NO_GATEWAY_STATUSES = frozenset((200, 404, 405, 426))
"""How servers answer a handshake for which they have no WebSocket."""


@dataclass(frozen=True, slots=True)
class Link:
    """Whether frames flow. `words` says why not, `retry_in_ms` when the next attempt starts."""

    state: Literal["connecting", "online", "retrying", "idle", "stopped"]
    words: str = ""
    retry_in_ms: int = 0


class Unreachable(Exception):
    """No server answered at the first attempt."""


class NotAGateway(Exception):
    """What answered the first attempt is no chat server; the text says how it answered."""


class Connection:
    """A session over as many sockets as it takes. All methods belong to the loop of `run`."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        token: str | None = None,
        session_id: SessionId | None = None,
        on_change: Callable[[AnyServerFrame | None], None] = lambda frame: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.state = Conversation(session_id=session_id)
        self.link = Link("connecting")
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._on_change = on_change
        self._chance = chance
        self._failures = 0
        self._was_online = False
        self._goaway_at_ms: int | None = None
        self._outbox: asyncio.Queue[AnyClientFrame] = asyncio.Queue(OUTBOX_LIMIT)
        self._wanted = asyncio.Event()
        self._fetches: set[asyncio.Task[None]] = set()

    def send(self, message_id: MessageId, text: str) -> None:
        """Say something now, or as soon as there is a connection."""
        self._take(conversation.send(self.state, message_id, text))
        self._wanted.set()

    def cancel(self, message_id: MessageId) -> None:
        """Stop the turn of that message."""
        self._take(conversation.cancel(self.state, message_id))

    def ask_history(self, limit: int) -> None:
        """Ask for earlier turns; they arrive through `on_change`. Nothing while not connected."""
        if self.state.connected:
            self._put(ChatHistoryRequest(limit=limit))

    async def run(self) -> str:
        """Serve until there is no point in connecting again; answers why. Canceling is safe.

        Raises Unreachable when no server answers before the first session, NotAGateway when another
        kind of server does.
        """
        while True:
            self._show(Link("connecting"))
            link = await self._connect_once()
            self._show(link)
            if link.state == "stopped":
                return link.words
            if link.state == "idle":
                self._wanted.clear()
                await self._wanted.wait()
            await asyncio.sleep(link.retry_in_ms / 1000)

    async def _connect_once(self) -> Link:
        """One socket from handshake to end; answers what comes next."""
        self._goaway_at_ms = None
        try:
            async with connect(
                self._address.socket_url(self.state.session_id),
                additional_headers=self._headers,
                subprotocols=[Subprotocol("burstchat.v1")],
                compression=None,
                open_timeout=OPEN_TIMEOUT_S,
                max_size=FRAME_LIMIT_BYTES,
                proxy=None if self._address.is_loopback else True,
            ) as socket:
                await self._serve(socket)
        except InvalidStatus as error:
            return self._refused(error)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            if isinstance(error, InvalidMessage) and not self._was_online:
                raise NotAGateway("not in HTTP/1.1") from error
            if not self._was_online:
                raise Unreachable(self._address.origin) from error
            return self._retry("the server does not answer")
        return self._closed(socket.close_code)

    def _refused(self, error: InvalidStatus) -> Link:
        status = error.response.status_code
        if status in (401, 403):
            return Link("stopped", f"the server refused the sign-in (HTTP {status})")
        # Once there was a session, this is a passing fault of something in between.
        if status in NO_GATEWAY_STATUSES and not self._was_online:
            raise NotAGateway(f"HTTP {status}") from error
        after = error.response.headers.get("Retry-After", "")
        # The header counts whole seconds: without the part of one, all who read the same come back at once.
        wait_ms = int((int(after) + self._chance()) * 1000) if after.isdecimal() else None
        return self._retry(f"the server is busy (HTTP {status})", wait_ms)

    async def _serve(self, socket: ClientConnection) -> None:
        started_s = asyncio.get_running_loop().time()
        jobs = [asyncio.create_task(job) for job in (self._write(socket), self._tick(socket))]
        try:
            async for data in socket:
                # Unknown types are ignored; anything else that cannot be read is no reason to leave.
                with suppress(msgspec.DecodeError):
                    self._receive(decode_server_frame(data))
        except ConnectionClosed:
            pass  # the close code is read by the caller
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            if asyncio.get_running_loop().time() - started_s >= STABLE_AFTER_S:
                self._failures = 0
            while not self._outbox.empty():
                self._outbox.get_nowait()
            self.state = conversation.lost(self.state).state

    def _receive(self, frame: AnyServerFrame) -> None:
        match frame:
            case SessionReady():
                self._was_online = True
                self.link = Link("online")
            case SessionGoaway():
                self._goaway_at_ms = self._now_ms() + frame.reconnect_after_ms
            case _:
                pass
        self._take(conversation.receive(self.state, frame, self._now_ms()), frame)

    async def _write(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                frame = await self._outbox.get()
                await socket.send(msgspec.json.encode(frame).decode())

    async def _tick(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._take(conversation.tick(self.state, self._now_ms()))
            if self._goaway_at_ms is not None and self._now_ms() >= self._goaway_at_ms:
                await socket.close()

    def _closed(self, code: int | None) -> Link:
        if self._goaway_at_ms is not None:
            return self._retry(
                "the server asked to reconnect", max(0, self._goaway_at_ms - self._now_ms())
            )
        if code == FRAME_TOO_LARGE:
            refused = conversation.refuse_unanswered(
                self.state, "message_too_large", "The message is too long."
            )
            self.state = refused.state
        if code in STOPPING_CLOSES:
            return Link("stopped", STOPPING_CLOSES[code])
        if code == IDLE and not any(turn.status == "sent" for turn in self.state.turns):
            return Link("idle", "resting until you write")
        return self._retry("the connection was lost")

    def _retry(self, words: str, delay_ms: int | None = None) -> Link:
        if delay_ms is None:
            delay_ms = full_jitter_ms(self._failures, self._chance())
            self._failures += 1
        return Link("retrying", words, delay_ms)

    def _take(self, step: Step, frame: AnyServerFrame | None = None) -> None:
        changed = step.state is not self.state or isinstance(frame, ChatHistory)
        self.state = step.state
        for each in step.out:
            self._put(each)
        for turn_id in step.fetch:
            task = asyncio.create_task(self._fetch(turn_id))
            self._fetches.add(task)
            task.add_done_callback(self._fetches.discard)
        if changed:
            self._on_change(frame)

    def _put(self, frame: AnyClientFrame) -> None:
        # Full means that the socket takes nothing; the frame is repeated after the reconnect.
        with suppress(asyncio.QueueFull):
            self._outbox.put_nowait(frame)

    async def _fetch(self, turn_id: TurnId) -> None:
        request = urllib.request.Request(self._address.turn_url(turn_id), headers=self._headers)
        text = await asyncio.to_thread(_read_text, request)
        self._take(conversation.fetched(self.state, turn_id, text))

    def _show(self, link: Link) -> None:
        self.link = link
        self._on_change(None)

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _read_text(request: urllib.request.Request) -> str | None:
    """The text of a turn over HTTP; None when it cannot be had within 5 s."""
    try:
        with urllib.request.urlopen(request, timeout=FETCH_TIMEOUT_S) as answer:
            text = json.load(answer).get("text")
            return text if isinstance(text, str) else None
    except (OSError, ValueError, urllib.error.URLError):
        return None
