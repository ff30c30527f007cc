"""A whole turn from its frames, as a synchronous call answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import UNSET, UnsetType

from services.gateway.http_problem import Problem
from services.gateway.http_status import CANCELLED, EXPIRED, failed_status, rejected_status
from services.gateway.turn_lookup import TurnObject
from shared.contracts.identifiers import MessageId, SessionId, TurnId, made_at_ms
from shared.contracts.server_frames import (
    ChatAccepted,
    ChatRejected,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
    TerminalFrame,
    decode_server_frame,
)


class CollectedReply:
    """Takes the frames of one message in order, each once, up to its turn's end."""

    def __init__(self, session_id: SessionId, message_id: MessageId) -> None:
        self._session_id = session_id
        self._message_id = message_id
        self._text: list[str] = []
        self._path: str | UnsetType = UNSET
        self._end: TerminalFrame | None = None
        self.turn_id: TurnId | None = None
        """None until the message is a turn."""

    def take(self, frames: Sequence[bytes]) -> None:
        """The next frames. Raises Problem when the message was refused."""
        for data in frames:
            frame = decode_server_frame(data)
            match frame:
                case ChatAccepted():
                    self.turn_id = frame.turn_id
                case ChatRejected():
                    raise Problem(
                        rejected_status(frame.code),
                        frame.code,
                        frame.message,
                        retry_after_ms=_or_none(frame.retry_after_ms),
                        session_id=self._session_id,
                        message_id=self._message_id,
                    )
                case ResponseStarted():
                    self._text.clear()  # of an attempt that was taken over
                    self._path = frame.path
                case ResponseDelta():
                    self._text.append(frame.delta)
                case (
                    ResponseCompleted() | ResponseFailed() | ResponseCancelled() | ResponseExpired()
                ):
                    self._end = frame
                case _:
                    pass

    def turn(self) -> TurnObject | None:
        """The completed turn, None while it runs. Raises Problem when it ended otherwise."""
        end = self._end
        match end:
            case None:
                return None
            case ResponseCompleted():
                accepted_at_ms = made_at_ms(end.turn_id)
                return TurnObject(
                    turn_id=end.turn_id,
                    session_id=self._session_id,
                    message_id=self._message_id,
                    status="completed",
                    attempt=end.attempt,
                    path=self._path,
                    text="".join(self._text),
                    stop_reason=end.stop_reason,
                    usage=end.usage,
                    timings=end.timings,
                    sources=end.sources,
                    accepted_at_ms=accepted_at_ms,
                    completed_at_ms=accepted_at_ms + end.timings.total_ms,
                )
            case ResponseFailed():
                raise self.problem(
                    failed_status(end.code), end.code, end.message, _or_none(end.retry_after_ms)
                )
            case ResponseCancelled():
                raise self.problem(CANCELLED, "cancelled", "The turn was stopped.")
            case ResponseExpired():
                raise self.problem(EXPIRED, "expired", "The turn waited too long to begin.")
            case _:
                assert_never(end)

    def problem(
        self, status: int, code: str, sentence: str, retry_after_ms: int | None = None
    ) -> Problem:
        """A fault that names what it is about."""
        return Problem(
            status,
            code,
            sentence,
            session_id=self._session_id,
            message_id=self._message_id,
            turn_id=self.turn_id,
            retry_after_ms=retry_after_ms,
        )


def _or_none(value: int | UnsetType) -> int | None:
    return None if value is UNSET else value
