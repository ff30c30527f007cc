"""Carries out what session machines ask for."""

from __future__ import annotations

from typing import assert_never

from services.gateway.cancelling import Cancelling
from services.gateway.history import History
from services.gateway.replaying import Replaying
from services.gateway.sending import Sending
from services.gateway.session_io import (
    Answer,
    Ask,
    AskCancel,
    AskHistory,
    AskReplay,
    AskSend,
    CouldNotAsk,
    HistoryPage,
)
from shared.contracts.identifiers import SessionRef
from shared.contracts.ledger import Follower
from shared.errors import ChatError
from shared.telemetry import Log

_log = Log("chat")


class Chat:
    """The use cases of a socket, each bounded by the deadlines of its ports."""

    def __init__(
        self, sending: Sending, replaying: Replaying, cancelling: Cancelling, history: History
    ) -> None:
        self._sending = sending
        self._replaying = replaying
        self._cancelling = cancelling
        self._history = history

    async def perform(self, session: SessionRef, follower: Follower, command: Ask) -> Answer:
        """The answer to one question of the machine of `follower`'s connection. Raises nothing on purpose."""
        match command:
            case AskSend(frame=frame):
                return await self._sending.send(
                    session, frame.message_id, frame.text, frame.metadata, follower
                )
            case AskReplay():
                return await self._replaying.replay(
                    session,
                    command.turn_id,
                    # A check adds the follower again: the ledger may have lost it, or a sixth replaced it.
                    follower,
                    attempt=command.attempt,
                    after_seq=command.after_seq,
                    purpose=command.purpose,
                )
            case AskCancel():
                return await self._cancelling.cancel(session, command.turn_id, follower)
            case AskHistory():
                try:
                    page = await self._history.page(
                        session, before=command.before, limit=command.limit
                    )
                except ChatError as error:
                    _log.warning("history.unavailable", error_type=type(error).__name__)
                    return CouldNotAsk(None, "history")
                return HistoryPage(page)
            case _:
                assert_never(command)
