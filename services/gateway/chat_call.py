"""What `POST /v1/chat` was asked: body and headers as one call, or the fault that says why not."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from services.gateway.event_stream import CONTENT_TYPE
from services.gateway.frames_in import InputLimits, metadata_fault, text_fault
from services.gateway.http_problem import Problem
from services.gateway.http_status import rejected_status
from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import MessageId, SessionId, is_client_id
from shared.contracts.turns import Priority

Mode = Literal["wait", "stream", "detach"]
"""How the caller gets the reply: in this answer, as events of this answer, or later under the turn's address."""

_ID = Meta(
    description="Made by the server when absent.",
    extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,64}$"},
)
_TEXT = Meta(
    description="At most 16 KiB of UTF-8; no NUL, not blank.",
    # A schema cannot count bytes; more than this can never fit.
    extra_json_schema={"pattern": "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$", "maxLength": 16_384},
)


class ChatBody(msgspec.Struct, frozen=True, kw_only=True):
    """A user message over HTTP. Unknown fields are ignored."""

    text: Annotated[str, _TEXT]
    session_id: Annotated[str, _ID] | UnsetType = UNSET
    message_id: Annotated[str, _ID] | UnsetType = UNSET
    priority: Priority = "high"
    metadata: Annotated[dict[str, Any], Meta(description="At most 1 KiB of JSON.")] = {}


class ChatCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was understood; ids that the caller left out are made."""

    mode: Mode
    session_id: SessionId
    priority: Priority
    frame: ChatSend


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_chat_call(
    body: bytes,
    *,
    accept: str | None,
    prefer: str | None,
    limits: InputLimits,
    encoded_limit_bytes: int,
    new_id: str,
) -> ChatCall:
    """The call in a request; `new_id` serves where the caller gave none. Raises Problem as PROTOCOL §6 says.

    A message that would be too long as a frame, escapes included, is too long here: its queue message would be, too.
    Judged like a frame of a socket: JSON as a whole first (so a lone surrogate escape is `invalid_json`), fields, text.
    """
    wanted = _read_body(body)
    mode = _mode(accept, prefer)
    session_id = new_id if wanted.session_id is UNSET else wanted.session_id
    message_id = new_id if wanted.message_id is UNSET else wanted.message_id
    for name, value in (("session_id", session_id), ("message_id", message_id)):
        if not is_client_id(value):
            raise Problem(400, "bad_request", f"`{name}` is 1 to 64 of A-Z a-z 0-9 _ -.")
    fault = metadata_fault(wanted.metadata, limits)
    if fault is not None:
        raise Problem(400, "bad_request", f"{fault}.")
    if wanted.priority != "high" and mode != "detach":
        sentence = "`priority` normal and low need `Prefer: respond-async`."
        raise Problem(400, "bad_request", sentence)
    refusal = text_fault(wanted.text, limits.message_bytes)
    if refusal is not None:
        code, sentence = refusal
        raise Problem(rejected_status(code), code, sentence)
    frame = ChatSend(message_id=MessageId(message_id), text=wanted.text, metadata=wanted.metadata)
    if len(_encode(frame)) > encoded_limit_bytes:
        sentence = f"A message has at most {encoded_limit_bytes} bytes of JSON."
        raise Problem(413, "message_too_large", sentence)
    return ChatCall(
        mode=mode, session_id=SessionId(session_id), priority=wanted.priority, frame=frame
    )


def _read_body(body: bytes) -> ChatBody:
    try:
        fields = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Problem(400, "invalid_json", "The body is not JSON.") from error
    try:
        return msgspec.convert(cast("object", fields), ChatBody)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Problem(400, "bad_request", f"Not understood: {error}.") from error


def _mode(accept: str | None, prefer: str | None) -> Mode:
    if "respond-async" in _tokens(prefer):
        return "detach"
    return "stream" if CONTENT_TYPE in _tokens(accept) else "wait"


def _tokens(header: str | None) -> set[str]:
    """The items of a list header, without their parameters."""
    return {item.partition(";")[0].strip().lower() for item in (header or "").split(",")}
