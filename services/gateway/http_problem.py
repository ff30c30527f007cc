"""Every answer of 4xx and 5xx under `/v1`: one form of body, one place that writes it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

RETRY_AFTER_MS = 1_000
"""For a refusal that passes by itself and says nothing about when."""
_PASSES = (429, 503)
_encode = msgspec.json.Encoder().encode


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call did not succeed. `turn_id`, where it is given, can be polled; `message_id` repeats the caller's."""

    code: str
    message: str
    retry_after_ms: int | UnsetType = UNSET
    turn_id: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET


class Problem(Exception):
    """An answer that is not the wanted one. The sentence is for the caller and holds nothing private."""

    def __init__(
        self,
        status: int,
        code: str,
        sentence: str,
        *,
        retry_after_ms: int | None = None,
        turn_id: str | None = None,
        session_id: str | None = None,
        message_id: str | None = None,
    ) -> None:
        super().__init__(sentence)
        if retry_after_ms is None and status in _PASSES:
            retry_after_ms = RETRY_AFTER_MS
        self.status = status
        self.fault = Fault(
            code=code,
            message=sentence,
            retry_after_ms=UNSET if retry_after_ms is None else retry_after_ms,
            turn_id=UNSET if turn_id is None else turn_id,
            session_id=UNSET if session_id is None else session_id,
            message_id=UNSET if message_id is None else message_id,
        )

    def response(self) -> Response:
        """The answer: `Retry-After` in whole seconds, `Location` of a turn that can be polled."""
        fault = self.fault
        headers = {}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if isinstance(fault.retry_after_ms, int):
            headers["retry-after"] = str(-(-fault.retry_after_ms // 1_000))
        if isinstance(fault.turn_id, str):
            headers["location"] = turn_path(fault.turn_id)
        if isinstance(fault.session_id, str):
            headers["x-session-id"] = fault.session_id
        return json_response(fault, self.status, headers)


def unavailable() -> Problem:
    """Nobody could be asked just now."""
    return Problem(503, "unavailable", "This could not be done just now. Please try again.")


def turn_path(turn_id: str) -> str:
    """Where a turn is polled."""
    return f"/v1/turns/{turn_id}"


def json_response(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """One complete answer in JSON."""
    return Response(
        _encode(value), status_code=status, media_type="application/json", headers=headers
    )
