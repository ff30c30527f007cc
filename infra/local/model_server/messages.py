"""Wire shapes of the Messages API: requests as decoded values, events and errors as bytes.

Requests are read leniently where the real service is lenient (unknown fields) and refused where it
refuses, so that a prompt the real service would not take fails here too.
"""

from __future__ import annotations

from typing import Any

import msgspec


class InvalidRequest(Exception):
    """The request is one that the real service answers with 400 `invalid_request_error`."""


class Block(msgspec.Struct, frozen=True):
    """One content block; blocks other than text carry no text here."""

    type: str = "text"
    text: str = ""


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation as it came over the wire."""

    role: str
    content: str | list[Block]

    def texts(self) -> tuple[str, ...]:
        """The text blocks in order."""
        if isinstance(self.content, str):
            return (self.content,)
        return tuple(block.text for block in self.content if block.type == "text")


class MessagesRequest(msgspec.Struct, frozen=True):
    """Body of `POST /v1/messages`, as far as an answer depends on it."""

    model: str
    max_tokens: int
    messages: list[Message]
    system: str | list[Block] = ""
    stream: bool = False

    def last_user_texts(self) -> tuple[str, ...]:
        """Text blocks of the newest user message; empty when it carries none."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.texts()
        return ()

    def system_text(self) -> str:
        """The rules that the conversation stands under."""
        if isinstance(self.system, str):
            return self.system
        return "\n".join(block.text for block in self.system)

    def input_tokens(self) -> int:
        """An estimate at four UTF-8 bytes a token, at least 1."""
        texts = [self.system] if isinstance(self.system, str) else [b.text for b in self.system]
        for message in self.messages:
            texts.extend(message.texts())
        return max(1, sum(len(text.encode()) for text in texts) // 4)


_decoder = msgspec.json.Decoder(MessagesRequest)


def decode_request(body: bytes) -> MessagesRequest:
    """Decode and check one request body.

    Raises:
        InvalidRequest: with the sentence that goes into the error body.
    """
    try:
        request = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidRequest(str(error)) from error
    if request.max_tokens < 1:
        raise InvalidRequest("max_tokens: Input should be greater than or equal to 1")
    if not request.messages:
        raise InvalidRequest("messages: at least one message is required")
    if request.messages[0].role != "user":
        raise InvalidRequest('messages: first message must use the "user" role')
    for index, message in enumerate(request.messages):
        _check_message(index, message)
    return request


def _check_message(index: int, message: Message) -> None:
    if message.role not in ("user", "assistant"):
        raise InvalidRequest(f"messages.{index}.role: Input should be 'user' or 'assistant'")
    if not message.content:
        raise InvalidRequest(f"messages.{index}: content must be non-empty")
    if any(not text.strip() for text in message.texts()):
        raise InvalidRequest("messages: text content blocks must contain non-whitespace text")


def usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    """The usage object; this server keeps no prompt cache, so its cache counts are 0."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def message_body(
    *,
    message_id: str,
    model: str,
    text: str | None,
    stop_reason: str | None,
    input_tokens: int,
    output_tokens: int,
) -> dict[str, Any]:
    """A message object; `text` None is a message without content blocks."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if text is None else [{"type": "text", "text": text}],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage(input_tokens, output_tokens),
    }


def error_body(error_type: str, message: str, request_id: str) -> dict[str, Any]:
    """The error object, alike as a response body and as an `error` event."""
    return {
        "type": "error",
        "error": {"type": error_type, "message": message},
        "request_id": request_id,
    }


def event(body: dict[str, Any]) -> bytes:
    """One server-sent event; its name is the body's `type`."""
    name: str = body["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(body))


_DELTA_HEAD = (
    b"event: content_block_delta\ndata: "
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":'
)
_DELTA_TAIL = b"}}\n\n"

PING = event({"type": "ping"})
BLOCK_START = event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
)
BLOCK_STOP = event({"type": "content_block_stop", "index": 0})
MESSAGE_STOP = event({"type": "message_stop"})


def text_delta(text: str) -> bytes:
    """One text delta; the frequent event, so it is put together without a dictionary."""
    return _DELTA_HEAD + msgspec.json.encode(text) + _DELTA_TAIL


def message_delta(stop_reason: str, input_tokens: int, output_tokens: int) -> bytes:
    """The event that carries the stop reason and the cumulative usage."""
    return event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": usage(input_tokens, output_tokens),
        }
    )
