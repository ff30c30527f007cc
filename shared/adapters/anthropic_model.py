"""ChatModel over the Anthropic SDK: its transport and authentication, our own reading of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anthropic
import httpx2

from shared.adapters.anthropic_errors import TRANSPORT_ERRORS, classify
from shared.adapters.anthropic_events import EventDecoder, Framing
from shared.adapters.sse_framing import SseFraming
from shared.clock import Clock
from shared.contracts.model import ModelEvent, Prompt
from shared.errors import ConfigurationError, ModelTimeout

PROVIDER_URL = "https://api.anthropic.com"
NO_TIMEOUT = httpx2.Timeout(None)
_KEEPALIVE_S = 60.0
# After `message_stop` only the end of the body is missing; a connection read to its end is used again.
_END_OF_BODY_S = 0.02
# Compression would delay tokens and cost more than it saves on a stream.
_HEADERS = {"accept-encoding": "identity"}


AnyClient = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock


class MessagesModel:
    """Streams from a Messages API. Retries nothing: the turn's own limits decide about another call.

    The client is opened at the first call, so that a snapshot of the process holds no socket.
    """

    def __init__(
        self,
        open_client: Callable[[httpx2.AsyncClient], AnyClient],
        framing: Callable[[], Framing],
        *,
        clock: Clock,
        first_event_timeout_ms: int = 20_000,
        silence_timeout_ms: int = 15_000,
        connections: int = 1_000,
    ) -> None:
        self._open_client = open_client
        self._framing = framing
        self._clock = clock
        self._first_event_s = first_event_timeout_ms / 1000  # from the request, connecting included
        self._silence_s = silence_timeout_ms / 1000  # between events; pings count as life
        self._connections = connections  # open at once; more wait within the first-event timeout
        self._client: AnyClient | None = None

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[AsyncIterator[Sequence[ModelEvent]]]:
        """Open one call; each item is what one network read brought, ModelStopped last.

        Leaving the context closes the provider's connection at once unless the body was read to its end. Raises the
        ModelX errors of shared/errors.py, on entering and while iterating.
        """
        loop = asyncio.get_running_loop()
        first_event_at = loop.time() + self._first_event_s
        client = self._client or self._connect()
        manager = client.messages.with_streaming_response.create(
            **_request(prompt), stream=True, extra_headers=_HEADERS
        )
        try:
            async with asyncio.timeout_at(first_event_at):
                response = await manager.__aenter__()
        except Exception as error:
            raise self._translated(error) from error
        events = _Events(self, response.http_response, first_event_at)
        try:
            yield events
            await events.finish()
        finally:
            # The socket is let go before the first wait inside, so a second cancellation leaks nothing.
            with suppress(*TRANSPORT_ERRORS):
                await response.close()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _translated(self, error: Exception) -> Exception:
        return classify(error, self._clock.now_ms()) or error

    def _connect(self) -> AnyClient:
        limits = httpx2.Limits(
            max_connections=self._connections,
            max_keepalive_connections=self._connections,
            keepalive_expiry=_KEEPALIVE_S,
        )
        # The limits that fit a stream are kept here, and one timer per read is enough.
        http = anthropic.DefaultAioHttpClient(limits=limits, timeout=NO_TIMEOUT)
        self._client = self._open_client(http)
        return self._client


class AnthropicChatModel(MessagesModel):
    """ChatModel of the Anthropic API, or of anything that speaks it at `base_url`."""

    def __init__(self, *, api_key: str, clock: Clock, base_url: str = "", **limits: int) -> None:
        if not api_key:
            raise ConfigurationError("ANTHROPIC_API_KEY is missing: key of the Anthropic API.")

        def open_client(http: httpx2.AsyncClient) -> AnyClient:
            return anthropic.AsyncAnthropic(
                api_key=api_key,
                base_url=base_url or PROVIDER_URL,
                max_retries=0,
                timeout=NO_TIMEOUT,
                http_client=http,
            )

        super().__init__(open_client, SseFraming, clock=clock, **limits)


class _Events:
    """The events of one response, with a timer around each wait."""

    def __init__(
        self, model: MessagesModel, response: httpx2.Response, first_event_at: float
    ) -> None:
        self._model = model
        self._chunks = response.aiter_raw()
        self._decoder = EventDecoder(model._framing())
        self._next_at: float | None = first_event_at  # loop time; None once an event has come
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Sequence[ModelEvent]:
        if self._decoder.is_stopped:
            raise StopAsyncIteration
        deadline = self._next_at or self._loop.time() + self._model._silence_s
        try:
            async with asyncio.timeout_at(deadline):
                events = await self._read()
        except TimeoutError as error:
            what = "no first event" if self._next_at else "silence in mid-stream"
            raise ModelTimeout(f"the model's provider: {what}") from error
        except Exception as error:
            raise self._model._translated(error) from error
        self._next_at = None
        return events

    async def finish(self) -> None:
        """Read the end of a body whose stop has come, so that its connection can be used again."""
        if not self._decoder.is_stopped:
            return
        with suppress(*TRANSPORT_ERRORS):
            async with asyncio.timeout(_END_OF_BODY_S):
                async for _ in self._chunks:
                    pass

    async def _read(self) -> list[ModelEvent]:
        if self._decoder.failure is not None:
            raise self._decoder.failure
        try:
            async for chunk in self._chunks:
                if events := self._decoder.feed(chunk):
                    return events
                if self._decoder.failure is not None:
                    raise self._decoder.failure
        except TRANSPORT_ERRORS:
            if not self._decoder.has_stop_reason:
                raise
        return [self._decoder.end()]


def _request(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_tokens": prompt.max_tokens,
        "system": [
            # The stable prefix; everything after it changes from turn to turn.
            {"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}
        ],
        "messages": [
            {"role": message.role, "content": message.content} for message in prompt.messages
        ],
    }
