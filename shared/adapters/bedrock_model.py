"""ChatModel on Amazon Bedrock: the same Messages API, signed by the SDK, its events in AWS's own framing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from zlib import crc32

import anthropic
import httpx2
import msgspec
from botocore.eventstream import EventStreamHeaderParser, ParserError

from shared.adapters.anthropic_events import StreamedError
from shared.adapters.anthropic_model import NO_TIMEOUT, AnyClient, MessagesModel
from shared.adapters.sse_framing import EVENT_LIMIT_BYTES
from shared.clock import Clock
from shared.errors import ModelDisconnected

_PRELUDE = struct.Struct("!III")  # length of the message, of its headers, checksum of both
_CHECKSUM = struct.Struct("!I")
_SHORTEST_BYTES = _PRELUDE.size + _CHECKSUM.size
_KNOWN_HEADERS = 64


class _Chunk(msgspec.Struct):
    data: bytes = msgspec.field(name="bytes", default=b"")  # base64 in the JSON


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
    """`application/vnd.amazon.eventstream`: each message holds one event of the Messages API in base64.

    botocore's buffer takes twice a token's whole budget, most of it for headers that are the same in every message.
    """

    def __init__(self) -> None:
        self._rest = b""

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """The JSON of every event that `chunk` completes.

        Raises StreamedError for an exception message and ModelDisconnected for bytes that are no event stream.
        """
        data = self._rest + chunk if self._rest else chunk
        start, end = 0, len(data)
        try:
            while end - start >= _PRELUDE.size:
                length, header_length = _lengths_at(data, start)
                if end - start < length:
                    break
                message = data[start : start + length]
                start += length
                event = _event(message, header_length)
                if event:
                    yield event
        except (ParserError, msgspec.MsgspecError) as error:
            raise ModelDisconnected(_COMPLAINT) from error
        finally:
            self._rest = data[start:]


_COMPLAINT = "the model's stream is no event stream"


def _lengths_at(data: bytes, start: int) -> tuple[int, int]:
    length, header_length, checksum = _PRELUDE.unpack_from(data, start)
    is_sane = _SHORTEST_BYTES + header_length <= length <= EVENT_LIMIT_BYTES
    if not is_sane or crc32(data[start : start + 8]) != checksum:
        raise ParserError(_COMPLAINT)
    return length, header_length


def _event(message: bytes, header_length: int) -> bytes:
    body_at = _PRELUDE.size + header_length
    if crc32(message[:-4]) != _CHECKSUM.unpack_from(message, len(message) - 4)[0]:
        raise ParserError(_COMPLAINT)
    payload = message[body_at:-4]
    failure = _failure_of(message[_PRELUDE.size : body_at])
    if failure is not None:
        name, text = failure
        raise StreamedError(name, text or _decode_failure(payload or b"{}").message)
    return _decode_chunk(payload).data


@lru_cache(_KNOWN_HEADERS)
def _failure_of(block: bytes) -> tuple[str, str] | None:
    """Name and words of an exception or error, None for an event."""
    headers: dict[str, Any] = EventStreamHeaderParser().parse(block)
    if headers.get(":message-type") not in {"exception", "error"}:
        return None
    name = headers.get(":exception-type") or headers.get(":error-code") or ""
    return str(name), str(headers.get(":error-message") or "")
