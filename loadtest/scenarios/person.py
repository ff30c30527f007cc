"""One user of a scenario: a socket that comes back when it is refused or lost, and one turn after the other."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from clients.backoff import full_jitter_ms
from loadtest.observed_turn import ObservedTurn
from shared.contracts.client_frames import ChatResume, ChatSend
from shared.contracts.identifiers import MessageId, TurnId
from shared.contracts.server_frames import ServerFrame, SessionReady, decode_server_frame

TURN_TIMEOUT_S = 90.0
_encoder = msgspec.json.Encoder()


def now_ms() -> int:
    """Milliseconds of this process's clock."""
    return round(time.perf_counter() * 1_000)


@dataclass
class Seen:
    """What the users of a scenario saw, all together."""

    turns: list[ObservedTurn] = field(default_factory=list)
    refused_handshakes: int = 0
    failed_handshakes: Counter[str] = field(default_factory=Counter)
    """By the name of the error."""
    tenants: dict[str, str] = field(default_factory=dict)
    """Message id → tenant."""


class Person:
    """`url` names the session, so that a lost socket comes back to it."""

    def __init__(
        self, url: str, seen: Seen, *, tenant: str = "default", token: str | None = None
    ) -> None:
        session_id = f"load-{uuid.uuid4().hex[:12]}"
        self._url = f"{url}?session_id={session_id}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tenant = tenant
        self._seen = seen
        self._failures = 0
        self.socket: ClientConnection | None = None

    async def connect(self) -> ClientConnection:
        """A socket, however long it takes: as told by a full gateway, else with full jitter."""
        while True:
            try:
                self.socket = await connect(
                    self._url,
                    additional_headers=self._headers,
                    compression=None,
                    open_timeout=20,
                    max_size=2**20,
                    proxy=None,
                )
                await asyncio.wait_for(self.socket.recv(), 20)
            except InvalidStatus as error:
                self._seen.refused_handshakes += 1
                after = error.response.headers.get("Retry-After", "")
                wait_s = int(after) + random.random() if after.isdecimal() else self._back_off_s()
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                self._seen.failed_handshakes[type(error).__name__] += 1
                wait_s = self._back_off_s()
            else:
                self._failures = 0
                return self.socket
            await asyncio.sleep(wait_s)

    async def chat(self, text: str, until_ms: int, pause_s: tuple[float, float]) -> None:
        """Turn after turn until the time is over; who is refused comes back when told."""
        while now_ms() < until_ms:
            turn = await self.say(text)
            if turn.retry_after_ms is not None:
                await asyncio.sleep(
                    min(turn.retry_after_ms / 1_000, max(0, until_ms - now_ms()) / 1_000)
                )
            await asyncio.sleep(random.uniform(*pause_s))
        await self.leave()

    async def say(self, text: str) -> ObservedTurn:
        """One message to its end, over as many sockets as it takes."""
        turn = ObservedTurn(message_id=uuid.uuid4().hex, sent_at_ms=now_ms())
        self._seen.turns.append(turn)
        self._seen.tenants[turn.message_id] = self._tenant
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_TIMEOUT_S):
                while not turn.is_ended:
                    socket = self.socket or await self.connect()
                    try:
                        await self._exchange(socket, turn, text)
                    except ConnectionClosed:
                        self.socket = None
        return turn

    async def leave(self) -> None:
        """Close politely."""
        if self.socket is not None:
            await self.socket.close()
            self.socket = None

    async def _exchange(self, socket: ClientConnection, turn: ObservedTurn, text: str) -> None:
        if turn.turn_id is None:
            frame = ChatSend(message_id=MessageId(turn.message_id), text=text)
            await socket.send(_encoder.encode(frame).decode())
        else:
            state = turn.state
            resume = ChatResume(
                turn_id=TurnId(turn.turn_id), after_seq=state.last_seq, attempt=state.attempt
            )
            await socket.send(_encoder.encode(resume).decode())
        while not turn.is_ended:
            frame_in = _decode(await socket.recv())
            if frame_in is not None and not isinstance(frame_in, SessionReady):
                turn.observe(frame_in, now_ms())  # type: ignore[arg-type]

    def _back_off_s(self) -> float:
        self._failures += 1
        return full_jitter_ms(self._failures, random.random()) / 1_000


def _decode(raw: str | bytes) -> ServerFrame | None:
    try:
        return decode_server_frame(raw)
    except msgspec.ValidationError:
        return None  # a frame type of a newer server
