"""Users and their clients: the real conversation and reducer over sockets that break, stall and come back."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from clients import conversation
from clients.backoff import STOPPING_CLOSES, full_jitter_ms
from clients.conversation import Conversation, Step
from clients.reducer import Turn
from shared.contracts.client_frames import AnyClientFrame
from shared.contracts.identifiers import MessageId, SessionId, TurnId
from shared.contracts.server_frames import (
    ResponseCancelled,
    ResponseCompleted,
    ResponseExpired,
    ResponseFailed,
    SessionGoaway,
    SessionReady,
    decode_server_frame,
)
from tests.simulation.history import History
from tests.simulation.monitor import short_turn
from tests.simulation.network import Network
from tests.simulation.sockets import SimSocket

TICK_S = 0.5
OPEN_TIMEOUT_S = 10.0
SENDS_OF_ONE_MESSAGE = 4

_TERMINAL = ResponseCompleted | ResponseFailed | ResponseCancelled | ResponseExpired
_encode = msgspec.json.Encoder().encode


class Door(Protocol):
    """What the load balancer knows of a gateway."""

    def open(self, client: Client, session_id: SessionId) -> SimSocket: ...


@dataclass
class Seen:
    """What arrived of one turn."""

    terminals: list[tuple[str, int, int]] = field(default_factory=list)
    fetches: int = 0


class Client:
    """One device of a user. It comes back until its user leaves for good."""

    def __init__(
        self,
        name: str,
        session_id: SessionId,
        *,
        network: Network,
        chance: random.Random,
        history: History,
        pick: Callable[[], Door | None],
        fetch: Callable[[TurnId], str | None],
    ) -> None:
        self.name = name
        self.state = Conversation(session_id=session_id)
        self.is_slow = False
        self.has_left = False
        self.connected_since_s: float | None = None
        self.seen: dict[TurnId, Seen] = {}
        self.sends: dict[MessageId, int] = {}
        self._resending: set[MessageId] = set()
        self._session_id = session_id
        self._network = network
        self._chance = chance
        self._history = history
        self._pick = pick
        self._fetch = fetch
        self._socket: SimSocket | None = None
        self._failures = 0
        self._connects = 0
        self._offline_until_s = 0.0
        self._goaway_at_s: float | None = None
        self._is_ticking = False

    # the user ------------------------------------------------------------------------------------

    def send(self, message_id: MessageId, text: str) -> None:
        if self.has_left:
            return
        self.sends[message_id] = self.sends.get(message_id, 0) + 1
        self._note("sends", text)
        self._take(conversation.send(self.state, message_id, text))

    def cancel(self, message_id: MessageId) -> None:
        if not self.has_left:
            self._note("presses stop", message_id)
            self._take(conversation.cancel(self.state, message_id))

    def leave(self) -> None:
        """Close the page for good."""
        self._note("leaves")
        self.has_left = True
        self._drop(is_silent=False)

    # the connection ------------------------------------------------------------------------------

    def connect(self) -> None:
        if self.has_left or self._socket is not None:
            return
        now_s = self._network.loop.time()
        if now_s < self._offline_until_s:
            self._network.later(self._offline_until_s - now_s, self.connect)
            return
        door = self._pick()
        if door is None:
            self._retry()
            return
        self._connects += 1
        self._goaway_at_s = None
        self._socket = socket = door.open(self, self._session_id)
        self._network.later(OPEN_TIMEOUT_S, self._give_up_opening, socket)

    def go_offline(self, for_s: float, *, is_silent: bool) -> None:
        """The device loses its network."""
        self._note("goes offline", f"for {for_s:.1f} s" + (", silently" if is_silent else ""))
        self._offline_until_s = self._network.loop.time() + for_s
        self._drop(is_silent=is_silent)
        self.connect()

    def stall(self) -> None:
        """Read nothing for now."""
        self.is_slow = True

    def unstall(self) -> None:
        self.is_slow = False
        if self._socket is not None:
            self._socket.resume_reading()

    def on_event(self, socket: SimSocket, kind: str, value: Any) -> None:
        if socket is not self._socket:
            return
        if kind == "frame":
            self._receive(value)
        elif kind != "open":
            self._note("is disconnected", f"{kind} {value or ''}".strip())
            self._forget_socket()
            if kind == "close" and value in STOPPING_CLOSES:
                self._history.violate("protocol", f"{self.name} was closed with {value}")
            self._retry()

    @property
    def pending_sends(self) -> int:
        """Refused messages that are about to be sent again."""
        return len(self._resending)

    @property
    def open_turns(self) -> list[Turn]:
        """Turns that have not ended as far as this client knows."""
        return [turn for turn in self.state.turns if not turn.is_ended]

    # parts ---------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        frame = decode_server_frame(data)
        if isinstance(frame, SessionReady):
            self._failures = 0
            self.connected_since_s = self._network.loop.time()
            self._note("is connected", f"as {frame.connection_id[:4]}")
        elif isinstance(frame, SessionGoaway):
            self._goaway_at_s = self._network.loop.time() + frame.reconnect_after_ms / 1000
            self._tick_soon()
        elif isinstance(frame, _TERMINAL):
            kind = type(frame).__name__
            seen = self.seen.setdefault(frame.turn_id, Seen())
            if (kind, frame.attempt, frame.seq) not in seen.terminals:
                seen.terminals.append((kind, frame.attempt, frame.seq))
                self._note(kind, f"{short_turn(frame.turn_id)} {frame.attempt}.{frame.seq}")
        self._take(conversation.receive(self.state, frame, self._now_ms()))
        self._try_again()

    def _try_again(self) -> None:
        """A user whose message was refused sends it again, a few times."""
        for turn in self.state.turns:
            message_id = turn.message_id
            if turn.status != "rejected" or message_id not in self.sends:
                continue
            if message_id in self._resending:
                continue
            if self.sends[message_id] < SENDS_OF_ONE_MESSAGE:
                self.sends[message_id] += 1
                wait_s = (turn.retry_after_ms or 1_000) / 1000 + self._chance.random()
                self._resending.add(message_id)
                self._network.later(wait_s, self._send_again, message_id, turn.user_text)

    def _send_again(self, message_id: MessageId, text: str) -> None:
        self._resending.discard(message_id)
        if not self.has_left:
            self._note("sends again", text)
            self._take(conversation.send(self.state, message_id, text))

    def _take(self, step: Step) -> None:
        self.state = step.state
        for frame in step.out:
            self._say(frame)
        for turn_id in step.fetch:
            self.seen.setdefault(turn_id, Seen()).fetches += 1
            self._note("fetches", short_turn(turn_id))
            self._network.later(0.05, self._fetched, turn_id)
        if any(turn.resume_sent_at_ms is not None for turn in self.state.turns):
            self._tick_soon()

    def _fetched(self, turn_id: TurnId) -> None:
        self._take(conversation.fetched(self.state, turn_id, self._fetch(turn_id)))

    def _say(self, frame: AnyClientFrame) -> None:
        if self._socket is not None:
            self._socket.say(_encode(frame).decode())

    def _tick_soon(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            self._network.later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        self._take(conversation.tick(self.state, self._now_ms()))
        goaway_at_s = self._goaway_at_s
        if goaway_at_s is None or self._socket is None:
            return
        if self._network.loop.time() < goaway_at_s:
            self._tick_soon()
        else:
            self._drop(is_silent=False)
            self.connect()

    def _give_up_opening(self, socket: SimSocket) -> None:
        if socket is self._socket and not self.state.connected:
            self._note("gives up", "the handshake was not answered")
            self._drop(is_silent=False)
            self._retry()

    def _retry(self) -> None:
        delay_ms = full_jitter_ms(self._failures, self._chance.random())
        self._failures += 1
        self._network.later(delay_ms / 1000 + 0.01, self.connect)

    def _drop(self, *, is_silent: bool) -> None:
        if self._socket is not None:
            self._socket.cut(is_silent=is_silent)
            self._forget_socket()

    def _forget_socket(self) -> None:
        self._socket = None
        self.connected_since_s = None
        self.state = conversation.lost(self.state).state

    def _now_ms(self) -> int:
        return int(self._network.loop.time() * 1000)

    def _note(self, what: str, detail: str = "") -> None:
        self._history.note(self.name, what, detail)
