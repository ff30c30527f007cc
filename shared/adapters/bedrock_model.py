"""ChatModel on Amazon Bedrock: the same Messages API, signed by the SDK, its events in AWS's own framing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import msgspec
from botocore.eventstream import EventStreamBuffer, ParserError

from shared.adapters.anthropic_events import StreamedError
from shared.adapters.anthropic_model import NO_TIMEOUT, AnyClient, MessagesModel
from shared.clock import Clock
from shared.errors import ModelDisconnected


class _Chunk(msgspec.Struct):
    bytes: str = ""


class _Failure(msgspec.Struct):
    message: str = ""


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_failure = msgspec.json.Decoder(_Failure).decode


class BedrockChatModel(MessagesModel):
    """Signs with AWS's default credential chain. `base_url` only for an endpoint of another address."""

    def __init__(self, *, region: str, clock: Clock, base_url: str = "") -> None:
        def open_client(http: httpx2.AsyncClient) -> AnyClient:
            return anthropic.AsyncAnthropicBedrock(
                aws_region=region,
                base_url=base_url or f"https://bedrock-runtime.{region}.amazonaws.com",
                max_retries=0,
                timeout=NO_TIMEOUT,
                http_client=http,
            )

        super().__init__(open_client, EventStreamFraming, clock=clock)


class EventStreamFraming:
    """`application/vnd.amazon.eventstream`: each message holds one event of the Messages API in base64."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """The JSON of every event that `chunk` completes.

        Raises StreamedError for an exception message and ModelDisconnected for bytes that are no event stream.
        """
        self._buffer.add_data(chunk)
        try:
            message: Any
            for message in self._buffer:
                data = _event(message.headers, message.payload)
                if data:
                    yield data
        except (ParserError, msgspec.MsgspecError, binascii.Error) as error:
            raise ModelDisconnected("the model's stream is no event stream") from error


def _event(headers: dict[str, Any], payload: bytes) -> bytes:
    if headers.get(":message-type") in {"exception", "error"}:
        name = headers.get(":exception-type") or headers.get(":error-code") or ""
        message = headers.get(":error-message") or _decode_failure(payload or b"{}").message
        raise StreamedError(str(name), str(message))
    return base64.b64decode(_decode_chunk(payload).bytes, validate=True)
