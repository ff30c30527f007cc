"""A user who follows PROTOCOL §4 to the letter over whichever gateway answers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from clients import conversation
from clients.backoff import full_jitter_ms
from clients.conversation import Conversation, Step
from clients.reducer import Turn
from infra.local.model_server.scripting import TextKind
from infra.local.model_server.texts import scripted_tokens
from shared.contracts.identifiers import MessageId
from shared.contracts.server_frames import SessionGoaway, SessionReady, decode_server_frame
from tests.chaos.witness import Witness

OPEN_TIMEOUT_S = 10
TICK_S = 0.5
LONGEST_BACKOFF_STEPS = 3
RESEND_AFTER_S = 1.0


@dataclass(frozen=True)
class Script:
    """What the model server is told to answer."""

    tokens: int
    tokens_per_s: int
    ttft_ms: int = 200
    text: TextKind = "lorem"
    seed: int = 1

    def words(self, call_id: str) -> str:
        """The user message."""
        return (
            f"/sim tokens={self.tokens} ttft_ms={self.ttft_ms} tokens_per_s={self.tokens_per_s} "
            f"text={self.text} seed={self.seed} id={call_id}"
        )

    def answer(self) -> str:
        """The text that a whole answer has."""
        return "".join(scripted_tokens(self.text, self.tokens, self.seed))


class ChaosUser:
    """One session over as many sockets as it takes; `run` serves it, `say` and `settled` use it."""

    def __init__(
        self, name: str, token: str, sockets: Sequence[str], chance: random.Random
    ) -> None:
        self.name = name
        self.token = token
        self.state = Conversation()
        self.witness = Witness()
        self.scripts: dict[str, Script] = {}
        self.rejections: list[str] = []
        self.connections = 0
        self._sockets = sockets
        self._next = chance.randrange(len(sockets))
        self._chance = chance
        self._socket: ClientConnection | None = None
        self._changed = asyncio.Event()
        self._goaway_at_s: float | None = None

    @property
    def session_id(self) -> str:
        """Chosen by the user, so that it is known before any server answers."""
        return f"chaos-{self.name}"

    @property
    def open_turns(self) -> list[Turn]:
        """Messages that have not ended, in whatever state; refused ones have."""
        return [turn for turn in self.state.turns if not turn.is_ended]

    @property
    def is_online(self) -> bool:
        """Whether `session.ready` came on the present socket."""
        return self.state.connected

    def prefer(self, index: int) -> None:
        """Connect to this gateway next."""
        self._next = index

    async def say(self, script: Script) -> str:
        """Send a message; answers its id at once."""
        message_id = f"{self.name}-{len(self.scripts)}"
        self.scripts[message_id] = script
        await self._take(
            conversation.send(self.state, MessageId(message_id), script.words(message_id))
        )
        return message_id

    async def ended(self, message_id: str) -> Turn:
        """Wait for the end of a message; a refused one is sent again with the same id, as §2 permits."""
        while True:
            turn = self.turn(message_id)
            if turn.status == "rejected":
                self.rejections.append(turn.code or "")
                await asyncio.sleep(max(RESEND_AFTER_S, (turn.retry_after_ms or 0) / 1000))
                await self._take(
                    conversation.send(self.state, MessageId(message_id), turn.user_text)
                )
            elif turn.is_ended:
                return turn
            else:
                await self._change()

    async def until(self, message_id: str, status: str) -> None:
        """Wait until the message has that status, or has ended."""
        while (turn := self.turn(message_id)).status != status and not turn.is_ended:
            await self._change()

    async def online(self) -> None:
        """Wait for `session.ready`."""
        while not self.state.connected:
            await self._change()

    def turn(self, message_id: str) -> Turn:
        """The newest state of a message."""
        return next(turn for turn in self.state.turns if turn.message_id == message_id)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            url = self._sockets[self._next % len(self._sockets)]
            self._next += 1
            began_s = time.monotonic()
            pause_s: float | None = None
            try:
                async with connect(
                    f"{url}?session_id={self.session_id}",
                    additional_headers={"Authorization": f"Bearer {self.token}"},
                    compression=None,
                    open_timeout=OPEN_TIMEOUT_S,
                    max_size=2**20,
                    proxy=None,
                ) as socket:
                    pause_s = await self._serve(socket)
            except (OSError, TimeoutError, InvalidHandshake):
                pass
            failures = 0 if time.monotonic() - began_s > 5 else failures + 1
            if pause_s is None:
                steps = min(failures, LONGEST_BACKOFF_STEPS)
                pause_s = full_jitter_ms(steps, self._chance.random()) / 1000
            await asyncio.sleep(pause_s)

    async def _serve(self, socket: ClientConnection) -> float | None:
        """One socket until it ends; answers the pause that the server asked for."""
        self.connections += 1
        self._socket, self._goaway_at_s = socket, None
        ticking = asyncio.create_task(self._tick(socket))
        try:
            async for data in socket:
                with suppress(msgspec.ValidationError):
                    await self._receive(data)
        except ConnectionClosed:
            pass
        finally:
            ticking.cancel()
            self._socket = None
            self.state = conversation.lost(self.state).state
            self._changed.set()
        return None if self._goaway_at_s is None else max(0.0, self._goaway_at_s - time.monotonic())

    async def _receive(self, data: str | bytes) -> None:
        frame = decode_server_frame(data)
        self.witness.see(frame, round(time.time() * 1000))
        if isinstance(frame, SessionGoaway):
            self._goaway_at_s = time.monotonic() + frame.reconnect_after_ms / 1000
        if isinstance(frame, SessionReady) and frame.session_id != self.session_id:
            self.witness.violations.append(f"{self.name} got session {frame.session_id}")
        await self._take(conversation.receive(self.state, frame, _now_ms()))

    async def _tick(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self._take(conversation.tick(self.state, _now_ms()))
            if self._goaway_at_s is not None and time.monotonic() >= self._goaway_at_s:
                await socket.close()

    async def _take(self, step: Step) -> None:
        self.state = step.state
        for turn_id in step.fetch:
            self.witness.violations.append(f"turn {turn_id}: text differs from its sha256")
        self._changed.set()
        if self._socket is not None:
            with suppress(ConnectionClosed):
                for frame in step.out:
                    await self._socket.send(msgspec.json.encode(frame).decode())

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
