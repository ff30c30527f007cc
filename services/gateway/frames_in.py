"""What a client's text message is: one of our frames, or the answer that says why not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec

from shared.contracts.client_frames import (
    AnyClientFrame,
    ChatCancel,
    ChatHistoryRequest,
    ChatResume,
    ChatSend,
    Ping,
)
from shared.contracts.identifiers import MessageId, TurnId, is_client_id
from shared.contracts.server_frames import ChatRejected, ErrorCode, ProtocolError, RejectedCode

TURN_ID_LIMIT_CHARACTERS = 128
HISTORY_LIMIT = 50
METADATA_DEPTH = 32
"""More than anyone needs, and far from where walking through it would end the stack."""
_NONCE_LIMIT_BYTES = 1_024
_FRAMES = {
    "chat.send": ChatSend,
    "chat.resume": ChatResume,
    "chat.cancel": ChatCancel,
    "chat.history": ChatHistoryRequest,
    "ping": Ping,
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class InputLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes of UTF-8."""

    message_bytes: int
    metadata_bytes: int


def decode_client_frame(
    text: str, limits: InputLimits
) -> AnyClientFrame | ProtocolError | ChatRejected:
    """The frame in a text message, or the frame to answer with: ProtocolError when it was not understood,
    ChatRejected when it was, but its text cannot become a turn.

    Judged in this order: JSON as a whole (so a lone surrogate escape is `invalid_json`), object, type, fields.
    """
    try:
        fields = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _error("invalid_json", "The frame is not JSON.")
    if not isinstance(fields, dict):
        return _error("invalid_frame", "A frame is a JSON object.")
    kind = fields.get("type")
    if not isinstance(kind, str):
        return _error("invalid_frame", "A frame has a `type`.")
    model = _FRAMES.get(kind)
    if model is None:
        return _error("unknown_type", "No frame has this type.")
    message_id, turn_id = _readable_ids(fields)
    try:
        frame: AnyClientFrame = msgspec.convert(fields, model)
    except (msgspec.ValidationError, RecursionError) as error:
        return _error("invalid_frame", f"{kind}: {error}.", message_id, turn_id)
    fault = _field_fault(frame, limits)
    if fault is not None:
        return _error("invalid_frame", f"{kind}: {fault}.", message_id, turn_id)
    return _text_refusal(frame, limits) or frame if isinstance(frame, ChatSend) else frame


def text_fault(text: str, limit_bytes: int) -> tuple[RejectedCode, str] | None:
    """Why a user message cannot become a turn, as code and sentence; None when it can."""
    # Every character takes at least one byte, so the first test spares encoding what is far too long.
    if len(text) > limit_bytes or len(text.encode()) > limit_bytes:
        return "message_too_large", f"A message has at most {limit_bytes} bytes of UTF-8."
    if "\0" in text:
        return "invalid_text", "A message must not contain NUL."
    if not text.strip():
        return "message_empty", "The message is empty."
    return None


def metadata_fault(metadata: dict[str, Any], limits: InputLimits) -> str | None:
    """Why a message's metadata is not taken; None when it is."""
    if _is_deep(metadata):
        return f"`metadata` is nested at most {METADATA_DEPTH} deep"
    if len(_encode(metadata)) > limits.metadata_bytes:
        return f"`metadata` has at most {limits.metadata_bytes} bytes of JSON"
    return None


def _is_deep(value: Any) -> bool:
    """True when lists and objects stand in one another more than METADATA_DEPTH deep."""
    level = [value]
    for _ in range(METADATA_DEPTH):
        level = [item for holder in level for item in _items(holder)]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _field_fault(frame: AnyClientFrame, limits: InputLimits) -> str | None:
    match frame:
        case ChatSend():
            return _send_fault(frame, limits)
        case ChatResume():
            if frame.after_seq < -1 or (frame.attempt or 0) < 0:
                return "`after_seq` is -1 or more, `attempt` 0 or more"
            return _turn_id_fault(frame.turn_id)
        case ChatCancel():
            return _turn_id_fault(frame.turn_id)
        case ChatHistoryRequest():
            if not 1 <= frame.limit <= HISTORY_LIMIT:
                return f"`limit` is 1 to {HISTORY_LIMIT}"
            return _turn_id_fault(frame.before) if frame.before is not None else None
        case Ping():
            if len(_encode(frame.nonce)) > _NONCE_LIMIT_BYTES:
                return f"`nonce` has at most {_NONCE_LIMIT_BYTES} bytes"
        case _:
            assert_never(frame)
    return None


def _send_fault(frame: ChatSend, limits: InputLimits) -> str | None:
    if not is_client_id(frame.message_id):
        return "`message_id` is 1 to 64 of A-Z a-z 0-9 _ -"
    return metadata_fault(frame.metadata, limits)


def _turn_id_fault(turn_id: TurnId) -> str | None:
    if not 1 <= len(turn_id) <= TURN_ID_LIMIT_CHARACTERS:
        return f"a turn id has 1 to {TURN_ID_LIMIT_CHARACTERS} characters"
    return None


def _text_refusal(frame: ChatSend, limits: InputLimits) -> ChatRejected | None:
    fault = text_fault(frame.text, limits.message_bytes)
    if fault is None:
        return None
    code, sentence = fault
    return ChatRejected(message_id=frame.message_id, code=code, message=sentence)


def _readable_ids(fields: dict[str, object]) -> tuple[MessageId | None, TurnId | None]:
    """Ids to name in an error: only such as could be ids, so that garbage is not sent back."""
    message_id, turn_id = fields.get("message_id"), fields.get("turn_id")
    return (
        MessageId(message_id) if isinstance(message_id, str) and is_client_id(message_id) else None,
        TurnId(turn_id)
        if isinstance(turn_id, str) and 1 <= len(turn_id) <= TURN_ID_LIMIT_CHARACTERS
        else None,
    )


def _error(
    code: ErrorCode,
    message: str,
    message_id: MessageId | None = None,
    turn_id: TurnId | None = None,
) -> ProtocolError:
    return ProtocolError(
        code=code,
        message=message,
        message_id=msgspec.UNSET if message_id is None else message_id,
        turn_id=msgspec.UNSET if turn_id is None else turn_id,
    )
