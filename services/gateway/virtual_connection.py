"""An HTTP request that waits for a reply, as a connection: frames reach it like any socket."""

from __future__ import annotations

from collections.abc import Callable

from services.gateway.connection import Connection, Peer, Perform
from services.gateway.http_socket import HttpSocket, Transport
from services.gateway.ordered_reply import OrderedReply
from services.gateway.outbox import Outbox
from services.gateway.queue_waits import QueueWaits
from services.gateway.session import Session
from shared.clock import Clock
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import SessionRef, TurnId
from shared.contracts.ledger import Follower

ASK_AGAIN_MS = 2_000
"""As a client does: one resume at a time, repeated after this."""


class VirtualConnection(Connection):
    """Sends one message or follows one turn. What it misses it asks for by itself."""

    __slots__ = ("_asked_at_ms", "reply", "socket")

    def __init__(
        self,
        *,
        session: Session,
        session_ref: SessionRef,
        follower: Follower,
        peer: Peer,
        outbox: Outbox,
        transport: Transport,
        reply: OrderedReply,
        perform: Perform,
        clock: Clock,
        on_change: Callable[[Connection, bool], None],
    ) -> None:
        self.reply = reply
        self.socket = HttpSocket(reply, transport, self._mend_gap)
        self._asked_at_ms = 0
        super().__init__(
            session=session,
            session_ref=session_ref,
            follower=follower,
            peer=peer,
            outbox=outbox,
            socket=self.socket,
            perform=perform,
            clock=clock,
            on_change=on_change,
        )

    def ask(self, frame: ChatSend) -> None:
        """Send the message; `chat.accepted` or `chat.rejected` is the first frame."""
        self.run(self.session.turns.send(frame))

    def follow(self, attempt: int | None, after_seq: int) -> None:
        """Follow the reply's turn; `chat.resumed` or `error` is the first frame."""
        self._resume(attempt, after_seq)

    def tick(self, waits: QueueWaits) -> None:
        """Time has passed."""
        super().tick(waits)
        if self.reply.is_gap:
            self._mend_gap(False)

    @property
    def needs_ticks(self) -> bool:
        """True also while something is missing, perhaps the turn's end itself."""
        return self.reply.is_gap or super().needs_ticks

    def _mend_gap(self, is_new: bool) -> None:
        if is_new or self._clock.now_ms() - self._asked_at_ms >= ASK_AGAIN_MS:
            self._resume(self.reply.attempt, self.reply.last_seq)

    def _resume(self, attempt: int | None, after_seq: int) -> None:
        now_ms = self._clock.now_ms()
        self._asked_at_ms = now_ms
        turn_id = TurnId(self.reply.turn_id)
        self.run(self.session.turns.resume(turn_id, attempt, after_seq, now_ms))
