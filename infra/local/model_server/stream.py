"""Paced writing of one event stream, driven by timers instead of a task that wakes per token.

Hundreds of streams at 50 tokens a second would otherwise spend their time in task switches and in the
response writer. The response object writes the headers and the first event; from then on finished
HTTP chunks go straight to the transport.
"""

from __future__ import annotations

import asyncio
import socket
import struct

from infra.local.model_server import messages
from infra.local.model_server.calls import Call
from infra.local.model_server.planning import Ending, Plan

_PING_EVERY_S = 1.0
_MAX_BUFFERED_BYTES = 256 * 1024
_RETRY_FULL_S = 0.05
_MAX_EVENTS_PER_WRITE = 500
_RESET_DELAY_S = 0.02
_RESET_TRIES = 50


def chunk(payload: bytes) -> bytes:
    """One HTTP/1.1 chunk."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


class PacedStream:
    """Sends a plan's pings and deltas on time; `done` resolves when all of them are written.

    A loop that is late catches up in one write, so the pace is kept on average. A client that does
    not read holds its own stream back at 256 KiB. `close` stops the timers and is idempotent.
    """

    def __init__(self, transport: asyncio.Transport, plan: Plan, call: Call) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._plan = plan
        self._call = call
        self._next = 0
        self._started_at = self._loop.time()
        self._first_at = self._started_at + max(plan.first_after_s, plan.pings_for_s)
        self._timer: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()

    def start(self) -> None:
        """Begin; returns at once."""
        if self._plan.pings_for_s > 0:
            self._ping()
        else:
            self._at(self._first_at, self._deltas)

    def close(self) -> None:
        """Stop sending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.done.done():
            self.done.cancel()

    def _at(self, when: float, callback: object) -> None:
        self._timer = self._loop.call_at(when, callback)  # type: ignore[arg-type]

    def _ping(self) -> None:
        if self._transport.is_closing():
            return
        now = self._loop.time()
        self._transport.write(chunk(messages.PING))
        if now + _PING_EVERY_S < self._first_at:
            self._at(now + _PING_EVERY_S, self._ping)
        else:
            self._at(self._first_at, self._deltas)

    def _deltas(self) -> None:
        pieces = self._plan.pieces
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > _MAX_BUFFERED_BYTES:
            self._at(self._loop.time() + _RETRY_FULL_S, self._deltas)
            return
        end = min(self._due(), self._next + _MAX_EVENTS_PER_WRITE, len(pieces))
        if end > self._next:
            payload = b"".join(messages.text_delta(piece) for piece in pieces[self._next : end])
            self._transport.write(chunk(payload))
            self._next = self._call.deltas = end
        if end < len(pieces):
            self._at(self._first_at + end * self._plan.interval_s, self._deltas)
        elif not self.done.done():
            self.done.set_result(None)

    def _due(self) -> int:
        if self._plan.interval_s == 0:
            return len(self._plan.pieces)
        late = self._loop.time() - self._first_at
        # Timers may fire a clock tick early; half an interval of tolerance keeps one write a token.
        return int(late / self._plan.interval_s + 0.5) + 1


async def reset(transport: asyncio.Transport) -> None:
    """End the connection with a TCP reset once what was written has left this process.

    Without the short wait the reset overtakes the last deltas in the client's socket buffer.
    """
    for _ in range(_RESET_TRIES):
        await asyncio.sleep(_RESET_DELAY_S)
        if transport.is_closing() or not transport.get_write_buffer_size():
            break
    connection = transport.get_extra_info("socket")
    if connection is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def closing_events(plan: Plan, input_tokens: int, request_id: str) -> bytes:
    """What follows the last delta, for the endings that say anything."""
    if plan.ending is Ending.COMPLETE:
        stop = messages.BLOCK_STOP if plan.has_block else b""
        outcome = messages.message_delta(plan.stop_reason, input_tokens, len(plan.pieces))
        return stop + outcome + messages.MESSAGE_STOP
    if plan.late_error is not None:
        error = plan.late_error
        return messages.event(messages.error_body(error.error_type, error.message, request_id))
    return b""


def opening_events(plan: Plan, message_id: str, model: str, input_tokens: int) -> bytes:
    """What precedes the first delta."""
    start = messages.event(
        {
            "type": "message_start",
            "message": messages.message_body(
                message_id=message_id,
                model=model,
                text=None,
                stop_reason=None,
                input_tokens=input_tokens,
                output_tokens=1,
            ),
        }
    )
    return start + messages.BLOCK_START + messages.PING if plan.has_block else start
