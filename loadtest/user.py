"""A Locust user: one WebSocket, one turn after another, each checked as a client would.

Locust patches the standard library for gevent, so the blocking client of `websockets` runs one greenlet per user.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar

import gevent
import msgspec
from locust import User, between, task
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from loadtest.observed_turn import ObservedTurn
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import MessageId
from shared.contracts.server_frames import decode_server_frame

TURN_TIMEOUT_S = 75.0
_encoder = msgspec.json.Encoder()


class ChatUser(User):
    """Connects once, then sends a message, reads its answer to the end and pauses."""

    wait_time = between(0.5, 1.5)
    turns: ClassVar[list[ObservedTurn]] = []
    message: ClassVar[str] = "/sim tokens=60 ttft_ms=300 tokens_per_s=50"
    _socket: ClientConnection | None = None

    def on_start(self) -> None:
        """Open the socket before the first turn, so that no turn's time holds the handshake."""
        self._connect()

    def on_stop(self) -> None:
        """Leave politely."""
        if self._socket is not None:
            self._socket.close()

    @task
    def turn(self) -> None:
        """One message and its answer."""
        if self._socket is None and not self._connect():
            return
        turn = ObservedTurn(message_id=uuid.uuid4().hex, sent_at_ms=_now_ms())
        self.turns.append(turn)
        try:
            self._exchange(turn)
        except (ConnectionClosed, TimeoutError) as error:
            turn.faults.append(f"socket: {type(error).__name__}")
            self._socket = None
        except gevent.GreenletExit:
            # Locust ends users that are between turns; one that woke at that very moment is cut by us, not
            # by the server. A turn that is read at the stop has its own, earlier deadline.
            self.turns.remove(turn)
            raise
        self._report(turn)

    def _connect(self) -> bool:
        started_ms = _now_ms()
        try:
            self._socket = connect(
                str(self.host), compression=None, open_timeout=20, max_size=2**20
            )
            self._socket.recv(timeout=20)
        except (OSError, TimeoutError, InvalidStatus, ConnectionClosed) as error:
            self._socket = None
            self._fire("connect", _now_ms() - started_ms, error)
            return False
        self._fire("connect", _now_ms() - started_ms, None)
        return True

    def _exchange(self, turn: ObservedTurn) -> None:
        assert self._socket is not None
        frame = ChatSend(message_id=MessageId(turn.message_id), text=self.message)
        self._socket.send(_encoder.encode(frame).decode())
        deadline_s = time.perf_counter() + TURN_TIMEOUT_S
        while not turn.is_ended:
            raw = self._socket.recv(timeout=max(0.0, deadline_s - time.perf_counter()))
            try:
                turn.observe(decode_server_frame(raw), _now_ms())
            except msgspec.ValidationError:
                continue  # a frame type of a newer server

    def _report(self, turn: ObservedTurn) -> None:
        whole = turn.outcome == "completed" and not turn.faults
        error = None if whole else AssertionError(f"{turn.outcome}: {', '.join(turn.faults)}")
        if turn.first_token_ms is not None:
            self._fire(f"first token {turn.path}", turn.first_token_ms, None)
        self._fire(f"turn {turn.path}", turn.total_ms or TURN_TIMEOUT_S * 1000, error)

    def _fire(self, name: str, elapsed_ms: float, error: Exception | None) -> None:
        self.environment.events.request.fire(
            request_type="ws",
            name=name,
            response_time=elapsed_ms,
            response_length=0,
            exception=error,
            context={},
        )


def _now_ms() -> int:
    return round(time.perf_counter() * 1000)
