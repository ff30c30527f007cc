"""Server-sent events: the frames of one turn as the body of an HTTP answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from services.asgi import Receive, Send
from services.gateway.chat_call import ChatCall
from services.gateway.collected_reply import CollectedReply
from services.gateway.event_stream import COMMENT, CONTENT_TYPE, encode_event
from services.gateway.http_problem import Problem, turn_path, unavailable
from services.gateway.lifetime import CLOSE_SLOW
from services.gateway.ordered_reply import OrderedReply
from services.gateway.turn_view import frame_head
from services.gateway.virtual_connection import VirtualConnection
from services.gateway.virtual_connections import Caller, VirtualConnections
from shared.clock import Clock
from shared.contracts.identifiers import TurnId, turn_of
from shared.contracts.server_frames import ChatResumed, ProtocolError, decode_server_frame

_ERROR = "error"


class StreamingCall:
    """The use case behind `Accept: text/event-stream` and `GET /v1/turns/{id}/events`.

    Nothing is written before the first frame: what is refused or unknown gets an answer of its own.
    """

    def __init__(self, virtual: VirtualConnections, clock: Clock, comment_ms: int) -> None:
        self._virtual = virtual
        self._clock = clock
        self._comment_s = comment_ms / 1_000

    async def ask(self, caller: Caller, call: ChatCall, receive: Receive, send: Send) -> None:
        """Send the message and stream its turn. Raises Problem or DependencyUnavailable before the answer began."""
        refusal = CollectedReply(call.session_id, call.frame.message_id)
        async with self._virtual.open(caller, OrderedReply()) as connection:
            connection.ask(call.frame)
            first = await connection.socket.take()
            if not first:
                raise unavailable()
            refusal.take(first[:1])
            await self._stream(connection, first, receive, send)

    async def follow(
        self,
        caller: Caller,
        turn_id: TurnId,
        attempt: int | None,
        after_seq: int,
        receive: Receive,
        send: Send,
    ) -> None:
        """Stream a turn behind (`attempt`, `after_seq`); 204, which ends a browser's retries, when nothing follows.

        Raises Problem or DependencyUnavailable before the answer began.
        """
        if turn_of(caller.session, turn_id) is None:
            raise _unknown()
        reply = OrderedReply(turn_id, attempt or 0, after_seq)
        async with self._virtual.open(caller, reply) as connection:
            connection.follow(attempt, after_seq)
            first = list(await connection.socket.take())
            if not first:
                raise unavailable()
            match decode_server_frame(first[0]):
                case ProtocolError(code="unknown_turn"):
                    raise _unknown()
                case ProtocolError():
                    raise unavailable()
                case ChatResumed(complete=True) if len(first) == 1:
                    # Its end follows at once, unless the reader has that.
                    first.extend(await connection.socket.take())
                    if len(first) == 1:
                        await _write_nothing(send)
                        return
            await self._stream(connection, first, receive, send)

    async def _stream(
        self,
        connection: VirtualConnection,
        first: Sequence[bytes],
        receive: Receive,
        send: Send,
    ) -> None:
        """Write until the turn's end, the end of the connection, or until the client has left."""
        gone = asyncio.ensure_future(disconnected(receive))
        writing = asyncio.ensure_future(self._write(connection, first, send))
        cut = asyncio.ensure_future(connection.socket.cut_off())
        try:
            await asyncio.wait([gone, writing, cut], return_when=asyncio.FIRST_COMPLETED)
            if connection.socket.close_code == CLOSE_SLOW:
                # The reader stands still, so an orderly end would wait for it as well.
                connection.socket.abort()
                await gone
            elif writing.done():
                writing.result()
        finally:
            for task in (gone, writing, cut):
                task.cancel()

    async def _write(
        self, connection: VirtualConnection, first: Sequence[bytes], send: Send
    ) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", CONTENT_TYPE.encode()),
                    (b"cache-control", b"no-store"),
                    # Proxies that buffer would turn a stream into one late block.
                    (b"x-accel-buffering", b"no"),
                    (b"x-session-id", connection.session_ref.session_id.encode()),
                    (b"location", turn_path(connection.reply.turn_id).encode()),
                ],
            }
        )
        await _send_body(send, _events(first))
        taking = asyncio.ensure_future(connection.socket.take())
        try:
            while frames := await self._next(taking, send):
                await _send_body(send, _events(frames))
                taking = asyncio.ensure_future(connection.socket.take())
        finally:
            taking.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, taking: asyncio.Future[Sequence[bytes]], send: Send) -> Sequence[bytes]:
        """What `taking` brings; comments while it brings nothing."""
        while True:
            silence = asyncio.ensure_future(self._clock.sleep(self._comment_s))
            either: set[asyncio.Future[Any]] = {taking, silence}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                silence.cancel()
            if taking.done():
                return taking.result()
            await _send_body(send, COMMENT)


async def disconnected(receive: Receive) -> None:
    """Return when the client has left; its request was read to the end before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _events(frames: Sequence[bytes]) -> bytes:
    # An error answers a question of our own about the turn, which is asked again.
    return b"".join(encode_event(frame) for frame in frames if frame_head(frame).type != _ERROR)


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _write_nothing(send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _unknown() -> Problem:
    return Problem(404, "unknown_turn", "No such turn.")
