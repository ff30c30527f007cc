"""The Messages API's event stream, decoded from bytes: a token costs one pass over its line, not an object tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from shared.contracts.model import ModelAlive, ModelEvent, ModelStopped, TextDelta
from shared.contracts.server_frames import Usage
from shared.errors import ModelDisconnected

_ALIVE = ModelAlive()


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    stop_reason: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str
    delta: _Delta | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    content_block: _Delta | None = None


class _Kind(msgspec.Struct):
    type: str


class _ErrorBody(msgspec.Struct):
    type: str = ""
    message: str = ""


class _ErrorEvent(msgspec.Struct):
    error: _ErrorBody


_KNOWN = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_error = msgspec.json.Decoder(_ErrorEvent).decode


class StreamedError(Exception):
    """The stream carried an `error` event: it fails although its HTTP status was 200."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Framing(Protocol):
    """How a provider puts events into bytes."""

    def split(self, chunk: bytes) -> Iterable[bytes]:
        """The JSON of every event that `chunk` completes.

        Raises StreamedError for a failure told outside the events, ModelDisconnected for bytes of another kind.
        """
        ...


class EventDecoder:
    """Bytes of one response in, events out, however the network cut them.

    After ModelStopped nothing more is produced. Event and delta types that this version does not know are signs of
    life. `input_tokens` counts the whole prompt, the cached part included.
    """

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._input_tokens = 0
        self._output_tokens = 0
        self._stop_reason: str | None = None
        self.is_stopped = False
        self.failure: StreamedError | ModelDisconnected | None = None

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """The events that `chunk` completes, up to a failure.

        An `error` event (StreamedError) or bytes that are no event stream (ModelDisconnected) set `failure`: the
        caller raises it after it has delivered what came before.
        """
        events: list[ModelEvent] = []
        try:
            for data in self._framing.split(chunk):
                if self.is_stopped:
                    break
                events.append(self._event(data))
        except (StreamedError, ModelDisconnected) as failure:
            self.failure = failure
        return events

    def end(self) -> ModelStopped:
        """The stop, also of a stream that was cut after its reason was known.

        Raises ModelDisconnected when no reason was given.
        """
        if self._stop_reason is None:
            raise ModelDisconnected("the model's stream ended without a stop reason")
        return self._stop(self._stop_reason)

    @property
    def has_stop_reason(self) -> bool:
        """The provider has said why it stops; only `message_stop` may be missing."""
        return self._stop_reason is not None

    def _event(self, data: bytes) -> ModelEvent:
        try:
            event = _decode_event(data)
        except msgspec.ValidationError as error:
            return self._unknown(data, error)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelDisconnected("the model's stream carries data that is no JSON") from error
        if event.type == "content_block_delta":
            delta = event.delta
            if delta is not None and delta.type == "text_delta" and delta.text:
                return TextDelta(delta.text)
            return _ALIVE
        return self._control(event, data)

    def _control(self, event: _Event, data: bytes) -> ModelEvent:
        match event.type:
            case "message_start":
                self._count(event.message.usage if event.message else None)
            case "content_block_start":
                block = event.content_block
                if block is not None and block.type == "text" and block.text:
                    return TextDelta(block.text)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._stop_reason = event.delta.stop_reason
            case "message_stop":
                return self.end()
            case "error":
                raise _streamed_error(data)
            case _:
                pass
        return _ALIVE

    def _stop(self, reason: str) -> ModelStopped:
        self.is_stopped = True
        return ModelStopped(
            reason, Usage(input_tokens=self._input_tokens, output_tokens=self._output_tokens)
        )

    def _count(self, usage: _Usage | None) -> None:
        if usage is None:
            return
        if usage.input_tokens is not None:
            self._input_tokens = (
                usage.input_tokens
                + (usage.cache_creation_input_tokens or 0)
                + (usage.cache_read_input_tokens or 0)
            )
        if usage.output_tokens is not None:
            self._output_tokens = usage.output_tokens

    def _unknown(self, data: bytes, error: msgspec.ValidationError) -> ModelEvent:
        try:
            kind = _decode_kind(data).type
        except msgspec.ValidationError:
            return _ALIVE
        if kind == "error":
            raise _streamed_error(data) from error
        if kind in _KNOWN:
            raise ModelDisconnected(f"the model's {kind} event cannot be read") from error
        return _ALIVE


def _streamed_error(data: bytes) -> StreamedError:
    try:
        body = _decode_error(data).error
    except msgspec.ValidationError:
        body = _ErrorBody()
    return StreamedError(body.type, body.message)
