"""The asynchronous call: a message becomes a turn that nobody waits for; the reply is fetched later."""

from __future__ import annotations

from services.gateway.chat_call import ChatCall
from services.gateway.http_problem import Problem
from services.gateway.http_status import rejected_status
from services.gateway.sending import Sending
from services.gateway.session_io import Accepted, Refused
from shared.contracts.identifiers import SessionRef, TurnRef
from shared.ports import TurnFollowers

_UNENDED = ("waiting", "running")


class DetachedCall:
    """The use case behind `Prefer: respond-async`."""

    def __init__(self, sending: Sending, followers: TurnFollowers) -> None:
        self._sending = sending
        self._followers = followers

    async def accept(self, session: SessionRef, call: ChatCall) -> Accepted:
        """The turn of the message, which goes on without a reader, also when it had one before.

        Raises Problem when it was refused, DependencyUnavailable when a known turn could not be detached.
        """
        frame = call.frame
        answer = await self._sending.send(
            session,
            frame.message_id,
            frame.text,
            frame.metadata,
            None,
            priority=call.priority,
            detached=True,
        )
        if isinstance(answer, Refused):
            raise Problem(
                rejected_status(answer.code),
                answer.code,
                answer.message,
                session_id=session.session_id,
                message_id=answer.message_id,
                retry_after_ms=answer.retry_after_ms,
            )
        if answer.duplicate and answer.status in _UNENDED:
            await self._followers.detach(TurnRef(session, answer.turn_id))
        return answer
