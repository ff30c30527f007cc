"""The synchronous call: a message is sent and its whole reply awaited, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from services.gateway.chat_call import ChatCall
from services.gateway.collected_reply import CollectedReply
from services.gateway.http_status import STILL_RUNNING
from services.gateway.ordered_reply import OrderedReply
from services.gateway.turn_lookup import TurnObject
from services.gateway.virtual_connection import VirtualConnection
from services.gateway.virtual_connections import Caller, VirtualConnections
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef, TurnId, turn_of
from shared.errors import ChatError
from shared.ports import TurnFollowers
from shared.telemetry import Log

_log = Log("waiting_call")


class WaitingCall:
    """The use case behind `POST /v1/chat` without further wishes."""

    def __init__(
        self,
        virtual: VirtualConnections,
        followers: TurnFollowers,
        clock: Clock,
        wait_limit_ms: int,
    ) -> None:
        self._virtual = virtual
        self._followers = followers
        self._clock = clock
        self._wait_limit_ms = wait_limit_ms

    async def wait(
        self, caller: Caller, call: ChatCall, gone: Callable[[], Awaitable[None]]
    ) -> TurnObject | None:
        """The completed turn; None when the caller left (`gone`), whose turn has no reader then.

        Raises Problem for every other end, DependencyUnavailable when nobody could be asked. A caller who is told to
        come back for the reply finds it: the turn is detached before its connection leaves it.
        """
        reply = CollectedReply(call.session_id, call.frame.message_id)
        # A token that was valid at the start serves the whole call.
        patient = msgspec.structs.replace(caller, expires_at_ms=None)
        async with self._virtual.open(patient, OrderedReply()) as connection:
            connection.ask(call.frame)
            if await self._collect(connection, reply, gone):
                return None
            turn = reply.turn()
            if turn is not None:
                return turn
            if reply.turn_id is None:
                raise reply.problem(503, "unavailable", "Nobody could be asked. Please try again.")
            await self._detach(caller.session, reply.turn_id)
        if connection.socket.close_code is None:
            sentence = "The reply takes longer. It goes on, and can be fetched at `turn_id`."
            raise reply.problem(STILL_RUNNING, "still_running", sentence)
        sentence = "This server is leaving. The reply goes on, and can be fetched at `turn_id`."
        raise reply.problem(503, "unavailable", sentence)

    async def _collect(
        self,
        connection: VirtualConnection,
        reply: CollectedReply,
        gone: Callable[[], Awaitable[None]],
    ) -> bool:
        """Read until the turn's end, the end of the connection or of the time; True when the caller left first."""
        reading = asyncio.ensure_future(_read(connection, reply))
        left = asyncio.ensure_future(gone())
        alarm = asyncio.ensure_future(self._clock.sleep(self._wait_limit_ms / 1_000))
        try:
            await asyncio.wait([reading, left, alarm], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            return left.done() and not reading.done()
        finally:
            for task in (reading, left, alarm):
                task.cancel()

    async def _detach(self, session: SessionRef, turn_id: TurnId) -> None:
        turn = turn_of(session, turn_id)
        if turn is None:
            return
        try:
            await self._followers.detach(turn)
        except ChatError as error:
            # It then has the reader grace like any turn that was left; coming back in time keeps it.
            _log.warning("turn.not_detached", turn_id=turn_id, error_type=type(error).__name__)


async def _read(connection: VirtualConnection, reply: CollectedReply) -> None:
    while frames := await connection.socket.take():
        reply.take(frames)
